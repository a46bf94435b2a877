-- What changes do to a value: the rules of changes.py, inside statements. A change that cannot be made raises FL001, with
-- its place as the detail; a value that grew too large raises FL002.

-- How messages name a value: its kind, and its JSON, cut at 60 characters.
CREATE FUNCTION flo.kind(given jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE jsonb_typeof(given)
        WHEN 'object' THEN 'an object'
        WHEN 'array' THEN 'a list'
        WHEN 'string' THEN 'text'
        WHEN 'number' THEN 'a number'
        WHEN 'boolean' THEN 'a boolean'
        ELSE 'null'
    END
$$;

CREATE FUNCTION flo.cut(given jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN length(given::text) > 60 THEN left(given::text, 59) || '…' ELSE given::text END
$$;

CREATE FUNCTION flo.shown(given jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT flo.kind(given) || ' ' || flo.cut(given)
$$;

CREATE FUNCTION flo.refuse(place text, reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'FL001', MESSAGE = reason, DETAIL = place;
END
$$;

-- An integer has no fraction digits, a float has; integers are exact, and what a float takes part in is IEEE 754's.
CREATE FUNCTION flo.sum(one numeric, other numeric) RETURNS numeric
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    past_every_float CONSTANT numeric := 2::numeric ^ 1024 - 2::numeric ^ 970;
    past_every_integer CONSTANT numeric := 10::numeric ^ 4300;  -- Python reads no more digits
    total numeric;
BEGIN
    IF scale(one) = 0 AND scale(other) = 0 THEN
        total := one + other;
        RETURN CASE WHEN abs(total) < past_every_integer THEN total END;
    END IF;
    IF greatest(abs(one), abs(other), abs(one + other)) >= past_every_float THEN
        RETURN NULL;
    END IF;
    total := (one::float8 + other::float8)::text::numeric;  -- by its text: the cast alone keeps 15 digits
    RETURN CASE WHEN scale(total) = 0 THEN total + 0.0 ELSE total END;
END
$$;

-- What a field holds after one operation. NULL stands for a field that is not there, before and after.
CREATE FUNCTION flo.changed(held jsonb, operation text, operand jsonb, field text, place text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    kind text := jsonb_typeof(held);
    reason text;
    total numeric;
    sign int;
BEGIN
    CASE operation
    WHEN 'set', 'now' THEN
        RETURN operand;
    WHEN 'unset' THEN
        RETURN NULL;
    WHEN 'increment', 'decrement' THEN
        IF kind IS NULL OR kind = 'number' THEN
            total := flo.sum(coalesce(held, '0')::numeric, operand::numeric);
            IF total IS NOT NULL THEN
                RETURN to_jsonb(total);
            END IF;
            reason := flo.cut(coalesce(held, '0')) || ' and ' || flo.cut(operand) || ' give ' || CASE
                WHEN scale(coalesce(held, '0')::numeric) = 0 AND scale(operand::numeric) = 0
                THEN 'an integer of more than 4300 digits'
                ELSE 'a number that is too large'
            END;
        END IF;
    WHEN 'min', 'max' THEN
        IF held IS NULL THEN
            RETURN operand;
        END IF;
        sign := flo.compare(operand, held, CASE WHEN kind = 'string' THEN flo.instant(held #>> '{}') END);
        IF sign IS NOT NULL THEN
            RETURN CASE WHEN sign = (CASE operation WHEN 'min' THEN -1 ELSE 1 END) THEN operand ELSE held END;
        END IF;
        reason := 'it holds ' || flo.shown(held) || ', which has no order with ' || flo.cut(operand);
    WHEN 'append', 'prepend', 'remove' THEN
        IF kind IS NULL OR kind = 'array' THEN
            RETURN CASE operation
                WHEN 'append' THEN coalesce(held, '[]') || jsonb_build_array(operand)
                WHEN 'prepend' THEN jsonb_build_array(operand) || coalesce(held, '[]')
                ELSE flo.without(held, operand)
            END;
        END IF;
        reason := 'it holds ' || flo.shown(held) || ', not a list';
    WHEN 'merge' THEN
        IF kind IS NULL OR kind = 'object' THEN
            RETURN coalesce(held, '{}') || operand;
        END IF;
        reason := 'it holds ' || flo.shown(held) || ', not an object';
    END CASE;
    PERFORM flo.refuse(
        place, 'cannot ' || operation || ' ' || field || ': ' || coalesce(reason, 'it holds ' || flo.shown(held))
    );
    RETURN NULL;
END
$$;

-- A list without the elements that are equal to one value, instants by their instant.
CREATE FUNCTION flo.without(list jsonb, gone jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    instant text := CASE WHEN jsonb_typeof(gone) = 'string' THEN flo.instant(gone #>> '{}') END;
BEGIN
    IF list IS NULL THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT coalesce(jsonb_agg(e.value ORDER BY e.place), '[]')
        FROM jsonb_array_elements(list) WITH ORDINALITY AS e (value, place)
        WHERE e.value <> gone AND (
            instant IS NULL OR jsonb_typeof(e.value) <> 'string'
            OR flo.instant(e.value #>> '{}') IS DISTINCT FROM instant
        )
    );
END
$$;

-- held, which the first depth segments of the path lead to, with the change made at the end of the path.
CREATE FUNCTION flo.change(
    held jsonb, path text[], depth int, operation text, operand jsonb, field text, place text
) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    segment text := path[depth + 1];
    takes_away boolean := operation IN ('unset', 'remove');
    way text := '''' || array_to_string(path[:depth], '.') || '''';
    size bigint;
    below jsonb;
BEGIN
    IF depth = cardinality(path) THEN
        RETURN flo.changed(held, operation, operand, field, place);
    END IF;
    IF held IS NULL AND NOT takes_away THEN
        held := '{}';
    END IF;
    IF jsonb_typeof(held) = 'object' THEN
        below := flo.change(held -> segment, path, depth + 1, operation, operand, field, place);
        RETURN CASE WHEN below IS NULL THEN held - segment ELSE held || jsonb_build_object(segment, below) END;
    END IF;
    IF jsonb_typeof(held) = 'array' THEN
        size := jsonb_array_length(held);
        IF segment ~ '^(0|-?[1-9][0-9]{0,17})$' AND segment::bigint >= -size AND segment::bigint < size THEN
            below := flo.change(held -> segment::int, path, depth + 1, operation, operand, field, place);
            RETURN CASE WHEN below IS NULL THEN held - segment::int ELSE jsonb_set(held, ARRAY[segment], below) END;
        END IF;
        IF NOT takes_away THEN
            PERFORM flo.refuse(place, 'cannot ' || operation || ' ' || field || ': ' || way || ' is a list of ' || size
                || ', and ''' || segment || ''' is no index of an element it has');
        END IF;
    ELSIF NOT takes_away THEN
        PERFORM flo.refuse(place, 'cannot ' || operation || ' ' || field || ': ' || way || ' is ' || flo.shown(held));
    END IF;
    RETURN held;
END
$$;

-- The value of a row whose fields are to be changed: an object.
CREATE FUNCTION flo.changeable(held jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF jsonb_typeof(held) <> 'object' THEN
        PERFORM flo.refuse('set', 'the row''s value is ' || flo.kind(held) || '; only fields of an object can be changed');
    END IF;
    RETURN held;
END
$$;

-- The value of a changed row, if it has at most 16 MiB as JSON. Its text is written only for one that may have more: no
-- character takes less than a sixth of its text in jsonb.
CREATE FUNCTION flo.bounded(given jsonb, table_name text, key text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    size bigint;
BEGIN
    IF pg_column_size(given) > 2500000 THEN
        size := octet_length(given::text);
        IF size > 16777216 THEN
            RAISE EXCEPTION USING ERRCODE = 'FL002', MESSAGE = key, DETAIL = size::text, TABLE = table_name;
        END IF;
    END IF;
    RETURN given;
END
$$;
