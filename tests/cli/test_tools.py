"""``flo logic`` and ``flo render``."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("rule", "data", "result"),
    [
        ('{"==": [1, 1]}', None, True),
        ('{"var": "a.b"}', '{"a": {"b": [1, 2.0, "é"]}}', [1, 2.0, "é"]),
        ('{"var": "n"}', '{"n": 18446744073709551616}', 18446744073709551616),
        ('{"var": "missing"}', "{}", None),
        ('"plain"', None, "plain"),
    ],
)
def test_logic_prints_what_the_rule_gives(rule: str, data: str | None, result: object, flo) -> None:
    answer = flo("logic", rule, *([] if data is None else ["--data", data]))
    assert (answer.code, answer.json) == (0, result)


@pytest.mark.parametrize(
    ("template", "data", "result"),
    [
        ("<< a >>", '{"a": "0000"}', "0000"),
        ("{{ a }}", '{"a": [1, null]}', [1, None]),
        ("x={{ a }}", '{"a": null}', "x="),
        ("<< a.b | upcase >>!", '{"a": {"b": "é"}}', "É!"),
        ("no marks", None, "no marks"),
        ("{% for i in a %}{{ i }};{% endfor %}", '{"a": [1, 2]}', "1;2;"),
    ],
)
def test_render_prints_what_the_template_gives(template: str, data: str | None, result: object, flo) -> None:
    answer = flo("render", template, *([] if data is None else ["--data", data]))
    assert (answer.code, answer.json, answer.err) == (0, result, "")


def test_both_read_files_and_standard_input(flo, folder: Path) -> None:
    folder.joinpath("rule.json").write_text('{"var": "a"}')
    folder.joinpath("text.txt").write_text("<< a >>\n")
    assert flo("logic", "@rule.json", "--data", "-", stdin='{"a": 1}').json == 1
    assert flo("render", "@text.txt", "--data", "-", stdin='{"a": 1}').json == 1
    assert flo("render", "-", "--data", '{"a": 1}', stdin="<< a >>\n").json == 1


def test_a_missing_value_is_told_with_the_nearest(flo) -> None:
    answer = flo("render", "<< a.nmae >>", "--data", '{"a": {"name": 1}}')
    assert (answer.code, answer.json) == (0, None)
    assert answer.err == "warning: 'a.nmae' is missing, null is used; did you mean 'a.name'?\n"


def test_the_time_is_at_hand(flo) -> None:
    assert isinstance(flo("render", "<< $util.timestamp >>").json, int)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["logic", '{"vra": "a"}'], "vra"),
        (["logic", "{'var': 1}"], "line 1, column 2"),
        (["logic", '{"var": "a"}', "--data", '{"a": NaN}'], "--data, line 1, column 7: NaN is no JSON number"),
        (["render", "<< a | upcas >>"], "upcase"),
        (["render", "<< a >>", "--data", "[1]"], "--data: it must be an object, a list came"),
        (["render", "@nowhere.txt"], "nowhere.txt: there is no such file"),
    ],
)
def test_a_mistake_is_told_with_its_place_and_ends_with_1(arguments: list[str], said: str, flo) -> None:
    answer = flo(*arguments)
    assert (answer.code, answer.out) == (1, "")
    assert said in answer.err


def test_json_that_is_wrong_is_shown_with_a_caret(flo) -> None:
    lines = flo("logic", '{"==": [1, 1],}').err.splitlines()
    assert lines[1] == '    {"==": [1, 1],}'
    assert lines[2].index("^") == lines[1].index(",}")
