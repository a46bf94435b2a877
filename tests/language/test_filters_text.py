"""Filters on text."""

from __future__ import annotations

import time

import pytest

from flo.engine.language.filters import FILTERS
from flo.engine.values import Json


def use(name: str, value: Json, *arguments: Json) -> Json:
    return FILTERS[name].function(value, *arguments)


@pytest.mark.parametrize(
    ("name", "value", "arguments", "expected"),
    [
        ("upcase", "straße", [], "STRASSE"),
        ("downcase", "ÀB", [], "àb"),
        ("capitalize", "mY great TITLE", [], "My great title"),
        ("trim", " \t\n a b \r\n", [], "a b"),
        ("lstrip", "  a ", [], "a "),
        ("rstrip", "  a ", [], "  a"),
        ("strip_newlines", "a\r\nb\nc", [], "abc"),
        ("newline_to_br", "a\r\nb", [], "a<br />\nb"),
        ("append", "a", [5], "a5"),
        ("prepend", 5, ["a"], "a5"),
        ("replace", "aXbX", ["X", "--"], "a--b--"),
        ("replace", "ab", ["", "-"], "-a-b-"),
        ("replace_first", "XX", ["X", "y"], "yX"),
        ("replace_last", "XX", ["X", "y"], "Xy"),
        ("remove", "a-b-c", ["-"], "abc"),
        ("remove_first", "a-b-c", ["-"], "ab-c"),
        ("remove_last", "a-b-c", ["-"], "a-bc"),
        ("truncate", "Ground control", [9], "Ground..."),
        ("truncate", "short", [9], "short"),
        ("truncatewords", "one two three", [2, " …"], "one two …"),
        ("split", "a, b,, c,,", [","], ["a", " b", "", " c"]),
        ("split", "  a \n b ", [" "], ["a", "b"]),
        ("split", "añ🙂", [""], ["a", "ñ", "🙂"]),
        ("split", "a1b", [1], ["a", "b"]),
        ("escape", "<a href='x'>\"&</a>", [], "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&lt;/a&gt;"),
        ("escape_once", "&lt;b&gt; & <b>", [], "&lt;b&gt; &amp; &lt;b&gt;"),
    ],
)
def test_a_text_filter_gives_what_liquid_gives(name: str, value: Json, arguments: list[Json], expected: Json) -> None:
    assert use(name, value, *arguments) == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "true"),
        (0, "0"),
        (1.0, "1.0"),
        ("None", "None"),
        ([1, "é"], '[1,"é"]'),
        ({"k": None}, '{"k":null}'),
    ],
)
def test_a_value_that_is_no_text_is_written_as_it_stands_in_text(value: Json, text: str) -> None:
    assert use("to_string", value) == text
    assert use("append", value, "") == text


def test_a_missing_text_is_not_split_into_an_empty_list() -> None:
    assert use("split", None, ",") is None
    assert use("split", "", ",") == []


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<p class="a\nb">Hi <b>you</b></p>', "Hi you"),
        ("a<script type='x'>if (a < b) { }</script>b", "ab"),
        ("a<STYLE>p {}</STYLE>b<!-- <b> -->c", "abc"),
        ("1 < 2", "1 < 2"),
        ("<script>never closed", "never closed"),
        ("&amp; stays", "&amp; stays"),
    ],
)
def test_strip_html_removes_tags_comments_scripts_and_styles(html: str, text: str) -> None:
    assert use("strip_html", html) == text


@pytest.mark.parametrize("part", ["<script", "<!--", "<", "<a>"])
def test_strip_html_takes_time_in_proportion_to_the_text(part: str) -> None:
    start = time.perf_counter()
    use("strip_html", part * 200_000)

    assert time.perf_counter() - start < 5


@pytest.mark.parametrize(
    ("name", "value", "arguments"),
    [
        ("append", "x" * 16_000_000, ["y" * 16_000_000]),
        ("replace", "a" * 1_000_000, ["a", "b" * 1000]),
        ("replace", "a" * 1_000_000, ["", "b" * 1000]),
        ("replace_first", "a", ["a", "b" * 17_000_000]),
        ("split", "a " * 1_000_001, [" "]),
        ("split", "a," * 1_000_001, [","]),
        ("split", "a" * 1_000_001, [""]),
        ("escape", "<" * 5_000_000, []),
        ("newline_to_br", "\n" * 3_000_000, []),
        ("truncate", "ab", [1, "x" * 17_000_000]),
    ],
)
def test_no_text_filter_builds_more_than_its_bound(name: str, value: str, arguments: list[Json]) -> None:
    with pytest.raises(ValueError, match=r"more than (16,777,216 characters|1,000,000 elements)"):
        use(name, value, *arguments)


@pytest.mark.parametrize("length", ["ten", None, 2.5, True, [1]])
def test_a_length_that_is_no_whole_number_is_refused(length: Json) -> None:
    with pytest.raises(ValueError, match="the length must be a whole number, not"):
        use("truncate", "abc", length)
