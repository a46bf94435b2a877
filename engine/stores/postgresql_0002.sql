-- How values are read and compared: the rules of comparison.py and instants.py, inside statements.
-- jsonb keeps numbers as the decimals they are written as, so its own equality is theirs.

-- The stored form of an instant. (Not in SQL: a body that is not inlined costs a claim more than the rest of it.)
CREATE FUNCTION flo.rfc3339(moment timestamptz) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RETURN to_char(moment AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
END
$$;

-- An RFC 3339 instant as text that sorts by time: twelve digits of seconds since a day before year 1, a dot, the digits
-- of the fraction without trailing zeros. NULL for every other text. Compare it with the collation "C".
CREATE FUNCTION flo.instant(given text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    year int;
    month int;
    day int;
    seconds bigint;
    ending text;  -- the fraction and the offset
BEGIN
    IF octet_length(given) < 20 OR substr(given, 5, 1) <> '-' OR given COLLATE "C" !~
        '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]'
        '(\.[0-9]+)?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$'
    THEN
        RETURN NULL;
    END IF;
    year := substr(given, 1, 4)::int;
    month := substr(given, 6, 2)::int;
    day := substr(given, 9, 2)::int;
    IF year = 0 OR day > 28 AND day > (CASE
        WHEN month IN (4, 6, 9, 11) THEN 30
        WHEN month <> 2 THEN 31
        WHEN year % 4 = 0 AND (year % 100 <> 0 OR year % 400 = 0) THEN 29
        ELSE 28
    END) THEN
        RETURN NULL;
    END IF;
    seconds := (make_date(year, month, day) - date '0001-01-01' + 1)::bigint * 86400
        + substr(given, 12, 2)::int * 3600 + substr(given, 15, 2)::int * 60 + substr(given, 18, 2)::int;
    ending := substr(given, 20);
    IF right(ending, 1) IN ('Z', 'z') THEN
        ending := left(ending, -1);
    ELSE
        seconds := seconds
            - (left(right(ending, 6), 1) || '1')::int * (left(right(ending, 5), 2)::int * 3600 + right(ending, 2)::int * 60);
        ending := left(ending, -6);
    END IF;
    RETURN lpad(seconds::text, 12, '0') || '.' || rtrim(substr(ending, 2), '0');
END
$$;

-- -1, 0 or 1 for two numbers, two instants or two texts; NULL for everything else. wanted_instant is the instant of
-- wanted, where it is one.
CREATE FUNCTION flo.compare(stored jsonb, wanted jsonb, wanted_instant text) RETURNS int
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    left_text text COLLATE "C";
    right_text text COLLATE "C";
BEGIN
    IF jsonb_typeof(stored) = 'number' AND jsonb_typeof(wanted) = 'number' THEN
        RETURN sign(stored::numeric - wanted::numeric);
    END IF;
    IF jsonb_typeof(stored) = 'string' AND jsonb_typeof(wanted) = 'string' THEN
        IF wanted_instant IS NOT NULL THEN
            left_text := flo.instant(stored #>> '{}');
        END IF;
        IF left_text IS NOT NULL THEN
            right_text := wanted_instant;
        ELSE
            left_text := stored #>> '{}';
            right_text := wanted #>> '{}';
        END IF;
        RETURN CASE WHEN left_text < right_text THEN -1 WHEN left_text > right_text THEN 1 ELSE 0 END;
    END IF;
    RETURN NULL;
END
$$;

-- What rows are ordered by: null, booleans, numbers, instants, other text; lists and objects tie, last.
CREATE TYPE flo.sort_key AS (rank int, number numeric, text text COLLATE "C");

CREATE FUNCTION flo.sort_key(given jsonb) RETURNS flo.sort_key
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    plain text;
    instant text;
BEGIN
    CASE jsonb_typeof(given)
    WHEN 'number' THEN
        RETURN ROW (2, given::numeric, '')::flo.sort_key;
    WHEN 'string' THEN
        plain := given #>> '{}';
        instant := flo.instant(plain);
        IF instant IS NULL THEN
            RETURN ROW (4, 0, plain)::flo.sort_key;
        END IF;
        RETURN ROW (3, 0, instant)::flo.sort_key;
    WHEN 'boolean' THEN
        RETURN ROW (1, given::boolean::int, '')::flo.sort_key;
    WHEN 'null' THEN
        RETURN ROW (0, 0, '')::flo.sort_key;
    ELSE
        RETURN ROW (5, 0, '')::flo.sort_key;
    END CASE;
END
$$;
