"""JSON is read strictly, and what is wrong is named with its place."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flo.engine.errors import InputInvalid
from flo.engine.positions import first_problem, locate, positions
from flo.engine.reading import parse_json

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
)


def refusal(data: str | bytes, **options: Any) -> InputInvalid:
    with pytest.raises(InputInvalid) as caught:
        parse_json(data, "it.json", **options)
    return caught.value


@given(documents, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_what_is_written_is_read_back(value: Any, indent: int | str | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repr(parse_json(text, "it.json")) == repr(value)
    assert parse_json(text.encode("utf-8-sig"), "it.json") == value
    assert parse_json(text.encode("utf-16"), "it.json") == value


json_pieces = st.lists(
    st.sampled_from([*'[]{},:"', " ", "\n", "1", "-0", "01", "1.5", "1e400", "null", "NaN", '"a"', '"b"', "\\u0041",
                     "\\ud83d", "\\ude00", "\\", "'x'", "//", "é", "\t", "1.", "true", "False"])
).map("".join)  # fmt: skip


@given(json_pieces | documents.map(json.dumps).flatmap(lambda text: st.integers(0, len(text)).map(lambda n: text[:n])))
def test_the_exact_scan_finds_a_problem_exactly_where_reading_refuses(text: str) -> None:
    if first_problem(text) is None:
        assert parse_json(text, "it.json") == json.loads(text)
    else:
        assert refusal(text).column >= 1


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ('{"a": 1,\n "a": 2}', 2, 2, "the key 'a' stands twice"),
        ('{"a": 1,\n}', 1, 8, "a comma after the last entry"),
        ("[1, 2,]", 1, 6, "a comma after the last entry"),
        ('{"a": 1 "b": 2}', 1, 9, "a comma is missing"),
        ('{\n  // note\n  "a": 1}', 2, 3, "JSON has none"),
        ('{"a": 1} # end', 1, 10, "after the end"),
        ('{"a": NaN}', 1, 7, "NaN is no JSON number"),
        ('{"a": -Infinity}', 1, 7, "-Infinity is no JSON number"),
        ('{"a": 1e400}', 1, 7, "too large"),
        ('{"a": ' + "9" * 4301 + "}", 1, 7, "4,300 digits"),
        ('{"a": 007}', 1, 7, "leading zeros"),
        ('{"a": .5}', 1, 7, "before and after the point"),
        ("[+1]", 1, 2, "no plus sign"),
        ("{'a': 1}", 1, 2, "double quotes"),
        ("{a: 1}", 1, 2, "double quotes"),
        ("{“a”: 1}", 1, 2, "double quotes"),
        ('{"a": True}', 1, 7, "did you mean 'true'"),
        ('{"a": None}', 1, 7, "did you mean 'null'"),
        ('{"a" 1}', 1, 6, "a colon is missing after the key 'a'"),
        ('{"a": "b\n"}', 1, 7, "without its closing quote"),
        ('["a\tb"]', 1, 4, "a tab in text"),
        ('["a\x01b"]', 1, 4, r"write \u0001"),
        (r'["\x41"]', 1, 3, "no escape"),
        (r'["\u12"]', 1, 3, "four hexadecimal digits"),
        (r'["\ud800"]', 1, 3, "half of a surrogate pair"),
        (r'["\ude00\ud83d"]', 1, 3, "half of a surrogate pair"),
        ('["\ud800"]', 1, 3, "half of a surrogate pair"),
        ('{"a": [1, 2}', 1, 12, "'}' closes what '[' opened in line 1, column 7"),
        ('{"a": [1, 2]', 1, 13, "the text ends before the object of line 1, column 1 is closed"),
        ("[1,\u00a02]", 1, 4, "U+00A0 came"),
        ("", 1, 1, "empty"),
        ("  \n", 1, 1, "empty"),
        ("[1] [2]", 1, 5, "after the end"),
        ("{,}", 1, 2, "a comma too many"),
        ("[,1]", 1, 2, "a value is missing"),
    ],
)
def test_what_is_no_json_is_named_with_its_place(text: str, line: int, column: int, part: str) -> None:
    refused = refusal(text)
    assert (refused.line, refused.column) == (line, column)
    assert part in refused.message
    assert refused.source == "it.json"


@pytest.mark.parametrize("text", [r'["\ud83d\ude00"]', r'["\\ud800"]', r'["\u0000"]', "[1.0]", "[-0.0, 1E5]"])
def test_what_only_looks_wrong_is_read(text: str) -> None:
    assert repr(parse_json(text, "it.json")) == repr(json.loads(text))


def test_whole_numbers_are_exact_up_to_the_limit() -> None:
    digits = "9" * 4300
    assert parse_json(f"[-{digits}]", "it.json") == [-int(digits)]


def test_nesting_is_bound_at_200_whatever_the_brackets() -> None:
    for opening, closing in (("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")):
        levels = 200 // (len(closing))
        deepest = opening * levels + "1" + closing * levels
        assert parse_json(deepest, "it.json")
        assert "nesting deeper than 200" in refusal(f"[{deepest}]").message


def test_brackets_in_text_nest_nothing() -> None:
    assert parse_json(json.dumps(['["\\' * 500]), "it.json") == ['["\\' * 500]


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 100_000, "[" * 100_000 + "]" * 100_000, '"\\"' * 100_000, "[" * 300 + '\\"' * 100_000],
)
def test_hostile_text_is_refused_quickly(text: str) -> None:
    started = time.perf_counter()
    assert refusal(text).line == 1
    assert time.perf_counter() - started < 1


def test_bytes_that_are_no_utf_8_are_named_with_their_place() -> None:
    refused = refusal('{\n "a": "é"}'.encode("latin-1"))
    assert (refused.line, refused.column) == (2, 8)
    assert "0xE9 is no UTF-8" in refused.message
    assert "UTF-16" in refusal('{"a": 1}'.encode("utf-16-le")).message


def test_a_text_over_the_limit_is_refused_by_size() -> None:
    assert "11 bytes, the limit is 10" in refusal(b'{"a": 1234}', limit=10).message


def test_places_are_found_by_key_and_by_index() -> None:
    text = '{\n  "steps": [\n    {"a": 1},\n    {"b": [true, {"c": null}]}\n  ]\n}'
    assert locate(text, ()) == (1, 1)
    assert locate(text, ("steps",)) == (2, 3)
    assert locate(text, ("steps", 1, "b", 1, "c")) == (4, 19)
    assert locate(text, ("steps", 1, "not there", 5)) == (4, 5)


@given(documents)
def test_every_value_has_a_place(value: Any) -> None:
    def places(held: Any, place: tuple[Any, ...]) -> set[tuple[Any, ...]]:
        entries = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ()
        return {place}.union(*(places(inner, (*place, part)) for part, inner in entries))

    assert positions(json.dumps(value)).keys() == places(value, ())
