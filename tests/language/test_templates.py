"""Marks in JSON values: types, text, places, and what is left alone."""

from __future__ import annotations

import pytest

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language.scope import Fresh, Missing, Scope
from flo.engine.language.templates import compile_template, compile_text
from flo.engine.language.workflow import Resolver
from flo.engine.values import Json, Place

INITIAL: dict[str, Json] = {
    "a": "0000",
    "b": "1685E6",
    "c": "+48100200300",
    "d": "123_123",
    "e": "1.0",
    "f": "[1]",
    "g": "1,2",
    "h": "None",
    "i": "",
    "null": None,
    "true": True,
    "one": 1,
    "float": 1.0,
    "big": 18446744073709551616,
    "list": [1, "é", None],
    "object": {"k": "é<>&\u2028"},
    "marks": "{{ initial.a }} << initial.a >> {% raw %}",
}


def given(value: Json) -> Json:
    missing: list[Missing] = []
    found = compile_template(value).resolve(Scope({"initial": INITIAL}), missing.append)
    assert missing == []
    return found


@pytest.mark.parametrize("key", list(INITIAL))
@pytest.mark.parametrize(
    "marks", ["<< initial.{} >>", "{{{{ initial.{} }}}}", "<<initial.{}>>", "{{{{-\ninitial.{}\t-}}}}"]
)
def test_a_lone_expression_gives_the_value_with_its_type(key: str, marks: str) -> None:
    assert given(marks.format(key)) is INITIAL[key]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (" << initial.one >>", " 1"),
        ("<< initial.one >> ", "1 "),
        ("<< initial.a >><< initial.one >>", "00001"),
        ("<< initial.a >>,{{ initial.b }}", "0000,1685E6"),
        ("x=<< initial.null >>", "x="),
        ("<< initial.true >>!", "true!"),
        ("<< initial.float >>!", "1.0!"),
        ("<< initial.big >>!", "18446744073709551616!"),
        ("<< initial.list >>!", '[1,"é",null]!'),
        ("<< initial.object >>!", '{"k":"é<>&\u2028"}!'),
        ("<< initial.h >>!", "None!"),
        ("é << initial.marks >>", "é {{ initial.a }} << initial.a >> {% raw %}"),
    ],
)
def test_anything_around_an_expression_gives_text(text: str, found: str) -> None:
    assert given(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "123345",
        "cat <<EOF",
        "cat <<EOF\nit's << here",
        "a << b",
        "if (a >> 1) { b }}",
        "}} >> %}",
        "{{ never closed",
        "{% never closed",
        "{{ >>",
        "<< }}",
        "{ { x } }",
        "printf '{%s}'",
        "'foo', 'bar'",
    ],
)
def test_text_without_a_complete_template_is_text(text: str) -> None:
    template = compile_template({"x": text})

    assert template.constant
    assert given({"x": text}) == {"x": text}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1 << 2 >> 3", "1 2 3"),
        ("cat <<EOF\nit's << initial.one >>\nEOF", "cat <<EOF\nit's 1\nEOF"),
        ("x << y {{ initial.one }}", "x << y 1"),
        ("{{ a << initial.one >>", "{{ a 1"),
        ("{{ {{ initial.one }}", "{{ 1"),
        ("<<<< initial.one >>>>", "<<1>>"),
        ("<< '>>' >>{{ \"}}\" }}", ">>}}"),
        ("<< '<< x >>' >>!", "<< x >>!"),
        (r"<< 'it\'s >>' >>", "it's >>"),
        ("{{ {'a': {'b': 1}}}}", {"a": {"b": 1}}),
        ("{{ {'a': {'b': {}}} }}", {"a": {"b": {}}}),
        ("{{{}}}", {}),
        ("<< {'a': '}'} >>", {"a": "}"}),
        ("a  <<- initial.one ->>  b", "a1b"),
        ("a \n{{- initial.one -}}\t b", "a1b"),
        ("a {{ initial.one -}} b {{- initial.one }} c", "a 1b1 c"),
        ("{{-5 }}", 5),
        ("<< initial.one->> x", "1x"),
    ],
)
def test_marks_pair_as_people_read_them(text: str, found: Json) -> None:
    assert given(text) == found


@pytest.mark.parametrize(
    "text", ["{{ it's }}", "<< >>", "{{}}", "x {{ a b }}", "<< {{ initial.one }} >>", "{{{ initial.one }}}"]
)
def test_a_complete_template_that_is_no_expression_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionInvalid):
        compile_text(text)


def test_a_text_says_whether_it_is_one_expression() -> None:
    assert compile_text("<< a >>").lone
    assert compile_text("{{- a -}}").lone
    assert not compile_text("<< a >> ").lone
    assert not compile_text("<< a >><< b >>").lone
    assert not compile_text("{% if a %}<< b >>{% endif %}").lone
    assert not compile_text("a").lone


def test_values_in_lists_and_objects_are_resolved_and_keys_are_not() -> None:
    assert given({"<< initial.one >>": ["<< initial.one >>", {"x": "n << initial.one >>", "y": 2}, None, True]}) == {
        "<< initial.one >>": [1, {"x": "n 1", "y": 2}, None, True]
    }


def test_what_holds_no_template_is_shared_and_not_copied() -> None:
    constant: Json = {"deep": [1, 2, {"x": "y"}]}
    template = compile_template({"constant": constant, "moving": "<< initial.one >>"})
    scope = Scope({"initial": INITIAL})
    first, second = (template.resolve(scope, lambda missing: None) for _ in range(2))

    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert first["constant"] is constant
    assert first == second
    assert first is not second
    assert list(first) == ["constant", "moving"]
    whole = compile_template(constant)
    assert whole.constant
    assert whole.resolve(scope, lambda missing: None) is constant


def test_a_template_is_what_a_workflow_keeps_of_an_input() -> None:
    template: Resolver = compile_template("<< initial.one >>")

    assert not template.constant


def test_raw_is_a_template_because_it_gives_other_text() -> None:
    assert not compile_template("{% raw %}x{% endraw %}").constant


def test_a_template_lists_its_paths_with_their_places() -> None:
    template = compile_template({"a": ["x", "<< b.c >> << d >>"], "e": "{{ f | append: g }}"})

    assert [(place, path.text) for place, path in template.paths] == [
        (("a", 1), "b.c"),
        (("a", 1), "d"),
        (("e",), "f"),
        (("e",), "g"),
    ]


def test_the_first_string_that_does_not_compile_is_raised() -> None:
    with pytest.raises(ExpressionInvalid, match="no filter 'upcsae'; did you mean 'upcase'"):
        compile_template({"a": "<< x | upcsae >>"})


def test_each_string_that_does_not_compile_is_reported_with_its_place() -> None:
    problems: list[tuple[Place, str]] = []
    template = compile_template(
        {"a": "<< x | upcsae >>", "b": ["{% iff %}", "<< initial.one >>"], "c": "{{ 1 + }}"},
        lambda place, problem: problems.append((place, problem.message)),
    )

    assert problems == [
        (("a",), "no filter 'upcsae'; did you mean 'upcase'?"),
        (("b", 0), "no tag 'iff'; did you mean 'if'?"),
        (("c",), "a value is missing here; the expression ends"),
    ]
    assert template.resolve(Scope({"initial": INITIAL}), lambda missing: None) == {"a": None, "b": [None, 1], "c": None}


def test_a_failure_names_the_place_the_expression_and_shows_a_caret() -> None:
    template = compile_template({"rows": [{"odd key": "n: << initial.one + initial.a >>"}]})
    with pytest.raises(TemplateFailed) as failure:
        template.resolve(Scope({"initial": INITIAL}), lambda missing: None)

    assert failure.value.place == 'rows[0]["odd key"]'
    assert str(failure.value).splitlines() == [
        'rows[0]["odd key"]: cannot add text to a number',
        "    initial.one + initial.a",
        "                ^",
    ]


def test_a_missing_value_is_told_once_and_is_nothing_in_text() -> None:
    missing: list[Missing] = []
    template = compile_template({"a": "Hello << initial.nmae >>!", "b": "{{ initial.nmae }}"})

    assert template.resolve(Scope({"initial": INITIAL}), missing.append) == {"a": "Hello !", "b": None}
    assert [each.path for each in missing] == ["initial.nmae", "initial.nmae"]


def test_a_missing_value_that_is_refused_fails_the_whole_with_its_place() -> None:
    def refuse(missing: Missing) -> None:
        raise TemplateFailed(f"{missing.path!r} is missing")

    with pytest.raises(TemplateFailed) as failure:
        compile_template({"a": 1, "b": ["<< initial.nmae >>"]}).resolve(Scope({"initial": INITIAL}), refuse)

    assert (failure.value.place, failure.value.text, failure.value.position) == ("b[0]", "initial.nmae", 0)


def test_a_fresh_value_is_made_at_each_reference() -> None:
    numbers = iter(range(10))
    scope = Scope({"$util": Fresh({"uuid": lambda: next(numbers)})})

    assert compile_template(["<< $util.uuid >>", "<< $util.uuid >>-<< $util.uuid >>"]).resolve(
        scope, lambda missing: None
    ) == [0, "1-2"]


def test_text_is_bounded() -> None:
    scope = Scope({"x": "y" * 1_000_000})
    with pytest.raises(TemplateFailed, match="the text grows past 16,777,216 characters"):
        compile_text("<< x >>" * 17).evaluate(scope, lambda missing: None)


def test_a_list_that_holds_one_value_many_times_is_not_written_past_the_bound() -> None:
    scope = Scope({"x": ["y" * 1_000_000]})
    with pytest.raises(TemplateFailed, match="text longer than 16,777,216 characters"):
        compile_text(f"is << [{', '.join(['x'] * 900)}] >>").evaluate(scope, lambda missing: None)


def test_a_number_that_python_does_not_write_fails_clearly() -> None:
    with pytest.raises(TemplateFailed, match="a number of more than 4,300 digits cannot be written"):
        compile_text("n: << n >>").evaluate(Scope({"n": 10**5000}), lambda missing: None)


@pytest.mark.parametrize("opening", ["<< ", "{{ ", "{% ", "<< {{ {% ", "<< {{ '\" "])
def test_a_long_text_of_opening_marks_is_read_at_once(opening: str) -> None:
    text = opening * 100_000

    assert compile_text(text).constant
    with pytest.raises(ExpressionInvalid):
        compile_text(text + "'\" }} >> %}")
