"""Block tags in text: branches, loops, assigned names, raw and comment blocks, and their bounds."""

from __future__ import annotations

import time

import pytest

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import compile_text
from flo.engine.values import Json

INITIAL: Json = {
    "name": "Ann",
    "tags": ["a", "b", "c"],
    "object": {"x": 1, "y": [2]},
    "people": [{"name": "Bob"}, {"name": "Cy"}],
    "marks": "{% if true %}{{ initial.name }}{% endif %}",
    "yes": True,
    "number": 5,
    "text": "hello",
    "null": None,
}


def given(text: str) -> Json:
    missing: list[Missing] = []
    found = compile_text(text).evaluate(Scope({"initial": INITIAL}), missing.append)
    assert missing == []
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{% if initial.yes %}a{% else %}b{% endif %}", "a"),
        ("{% if initial.null %}a{% else %}b{% endif %}", "b"),
        ("{% if initial.number > 9 %}a{% elsif initial.name == 'Ann' %}b{% else %}c{% endif %}", "b"),
        ("{% if initial.tags | size > 2 and not initial.null %}a{% endif %}", "a"),
        ("{% unless initial.null %}a{% endunless %}", "a"),
        ("{% unless true %}a{% elsif true %}b{% endunless %}", "b"),
        ("{% if 1 %}{% if null %}a{% else %}b{% endif %}c{% endif %}", "bc"),
        ("{% if '%}' == \"%}\" %}a{% endif %}", "a"),
        ("{%if 1%}<< initial.number >>{%endif%}", "5"),
        ("{% case initial.name %}{% when 'Bob', 'Ann' %}a{% else %}b{% endcase %}", "a"),
        ("{% case initial.number %}{% when '5' %}a{% when 4 or 5.0 %}b{% endcase %}", "b"),
        ("{% case initial.null %}{% when blank %}a{% else %}b{% endcase %}", "a"),
        ("{% case initial.name %} {% when 'Bob' %}a{% else %}b{% endcase %}", "b"),
    ],
)
def test_a_branch_is_taken_by_the_rules_of_expressions(text: str, found: str) -> None:
    assert given(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{% for t in initial.tags %}<< t >>,{% endfor %}", "a,b,c,"),
        ("{% for t in initial.tags reversed %}{{ t }}{% endfor %}", "cba"),
        ("{% for t in initial.tags limit: 1 offset: 1 %}{{ t }}{% endfor %}", "b"),
        ("{% for t in initial.tags limit:2, reversed %}{{ t }}{% endfor %}", "ba"),
        ("{% for t in initial.tags offset: initial.tags.size - 1 %}{{ t }}{% endfor %}", "c"),
        ("{% for t in initial.tags limit: 0 %}x{% else %}none{% endfor %}", "none"),
        ("{% for t in initial.tags limit: initial.null %}{{ t }}{% endfor %}", "abc"),
        ("{% for t in initial.tags offset: 9 %}x{% endfor %}", ""),
        ("{% for t in initial.tags | reverse | slice: 0, 2 reversed %}{{ t }}{% endfor %}", "bc"),
        ("{% for t in [] %}x{% else %}none{% endfor %}", "none"),
        ("{% for t in initial.null %}x{% else %}none{% endfor %}", "none"),
        ("{% for t in initial.text %}{{ t }}!{% endfor %}", "hello!"),
        ("{% for p in initial.object %}{{ p[0] }}={{ p[1] }};{% endfor %}", "x=1;y=[2];"),
        ("{% for i in (1..initial.number) %}{{ i }}{% endfor %}", "12345"),
        ("{% for i in (1..5) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}", "12"),
        ("{% for i in (1..5) %}{% if i == 3 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "1245"),
        ("{% for i in (1..2) %}{% for j in (1..9) %}{% break %}{% endfor %}{{ i }}{% endfor %}", "12"),
        ("{% for t in initial.tags %}{{ forloop.index }}/{{ forloop.length }},{% endfor %}", "1/3,2/3,3/3,"),
        ("{% for i in (1..2) %}{% for j in (1..2) %}{{ forloop.parentloop.rindex }}{{ forloop.rindex0 }},{% endfor %}"
         "{% endfor %}", "21,20,11,10,"),
        ("{% for i in (1..5) limit: 2 %}{{ i }}{% endfor %}|{% for i in (1..5) offset: continue %}{{ i }}{% endfor %}",
         "12|345"),
        ("{% for p in initial.people %}{{ p.name }}{% unless forloop.last %}, {% endunless %}{% endfor %}", "Bob, Cy"),
    ],
)  # fmt: skip
def test_a_loop_goes_over_its_items(text: str, found: str) -> None:
    assert given(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{% assign x = 'a' %}{{ x }}", "a"),
        ("{% assign x-y = initial.tags | join: '+' %}{{ x-y | upcase }}", "A+B+C"),
        ("{% assign x=1+2 %}{{ x * 2 }}", "6"),
        ("{% assign x = initial.people %}{{ x[1].name }}", "Cy"),
        ("{% assign $x = 1 %}{{ $x }}", "1"),
        ("{% assign n = 0 %}{% for i in (1..4) %}{% assign n = n + i %}{% endfor %}{{ n }}", "10"),
        ("{% assign i = 'kept' %}{% for i in (1..2) %}{% endfor %}{{ i }}", "kept"),
        ("{% assign initial = 7 %}{{ initial }}", "7"),
        ("{% assign x = 1 if initial.yes else 2 %}{{ x }}", "1"),
    ],
)
def test_an_assigned_name_is_seen_afterwards(text: str, found: str) -> None:
    assert given(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{% raw %}{{ a }} << b >> {% if %}{% endraw %}", "{{ a }} << b >> {% if %}"),
        ("{%raw%} x {%endraw%}{{ 1 }}", " x 1"),
        ("a {%- raw -%} b {%- endraw -%} c", "abc"),
        ("a{% comment %}{{ 1 + }} {% nothing %}{% endcomment %}b", "ab"),
        ("a {%- comment -%} x {%- endcomment -%} b", "ab"),
        ("{% comment %}{% comment %}{% endcomment %}x{% endcomment %}y", "y"),
        ("{% comment %}{% raw %}{% endcomment %}{% endraw %}{% endcomment %}y", "y"),
        ("a {%- if 1 -%} b {%- endif -%} c", "abc"),
        ("a\n{% if 1 %}\n b \n{% endif %}", "a\n\n b \n"),
        ("!{% if 1 %}  \n {% endif %}!", "!!"),
        ("!{% for i in (1..3) %} {% assign x = i %} {% endfor %}!", "!!"),
        ("1{% if 1 %} {% endif %}2{% if 1 %}{{ ' ' }}{% endif %}3", "12 3"),
        ("!{% if 1 %}  {{ '' }}  {% endif %}!", "!    !"),
        ("{% if 1 %}{{ initial.marks }}{% endif %}", "{% if true %}{{ initial.name }}{% endif %}"),
        ("{% assign x = initial.marks %}{{ x }}", "{% if true %}{{ initial.name }}{% endif %}"),
    ],
)
def test_raw_comments_blanks_and_values_come_out_as_liquid_has_it(text: str, found: str) -> None:
    assert given(text) == found


@pytest.mark.parametrize(
    "text", ["{% if initial.number %}<< initial.number >>{% endif %}", "{% assign x = 5 %}{{ x }}"]
)
def test_a_block_tag_makes_text(text: str) -> None:
    assert given(text) == "5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% foo %}", "no tag 'foo'; did you mean 'for'?"),
        ("{% elif 1 %}", "no tag 'elif'; did you mean 'elsif'?"),
        ("{% set x = 1 %}", "no tag 'set'; did you mean 'assign'?"),
        ("{% %}", "the name of a tag is missing"),
        ("{% if 1 %}", "'if' is never closed; '{% endif %}' is missing"),
        ("{% for x in y %}{% if 1 %}{% endfor %}", "the tag 'endfor' means nothing inside of 'if'"),
        ("{% endif %}", "the tag 'endif' means nothing here"),
        ("{% else %}", "the tag 'else' means nothing here"),
        ("{% raw %}", "'raw' is never closed; '{% endraw %}' is missing"),
        ("{% comment %}{% comment %}{% endcomment %}", "'comment' is never closed; '{% endcomment %}' is missing"),
        ("{% if %}{% endif %}", "a condition is missing after 'if'"),
        ("{% if 1 %}{% else x %}{% endif %}", "the tag 'else' takes nothing, but 'x' came"),
        ("{% if 1 %}{% else %}{% else %}{% endif %}", "the tag 'else' stands behind 'else'"),
        ("{% if 1 %}{% endif x %}", "the tag 'endif' takes nothing, but 'x' came"),
        ("{% case 1 %}x{% when 1 %}{% endcase %}", "something stands between 'case' and the first 'when'"),
        ("{% case 1 %}{% when %}{% endcase %}", "a value is missing here; the expression ends"),
        ("{% case 1 %}{% when 1 and 2 %}{% endcase %}", "an operator is missing before 'and'"),
        ("{% for %}{% endfor %}", "a name is missing here; the tag ends"),
        ("{% for x of y %}{% endfor %}", "'in' is missing after the name; 'of' came"),
        ("{% for x in y limt: 1 %}{% endfor %}",
         "'limt' means nothing behind the items of 'for'; did you mean 'limit'?"),
        ("{% break %}", "'break' stands outside of a 'for'"),
        ("{% for x in y %}{% else %}{% continue %}{% endfor %}", "'continue' stands outside of a 'for'"),
        ("{% assign = 1 %}", "a name to assign is missing"),
        ("{% assign 5 = 1 %}", "'5' is no name that can be assigned"),
        ("{% assign a.b = 1 %}", "'a.b' is no name that can be assigned"),
        ("{% assign empty = 1 %}", "'empty' is no name that can be assigned"),
        ("{% assign x 1 %}", "'=' is missing after 'x'"),
        ("{% assign x = %}", "an expression is missing between the marks"),
        ("{% if 1 %}{{ x | upcsae }}{% endif %}", "no filter 'upcsae'; did you mean 'upcase'?"),
        ("{% if 1 %}" * 200 + "{% endif %}" * 200, "block tags nested deeper than 100"),
    ],
)  # fmt: skip
def test_a_tag_that_means_nothing_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ExpressionInvalid) as problem:
        compile_text(text)

    assert problem.value.message == message


def test_an_error_shows_a_caret_under_the_tag() -> None:
    with pytest.raises(ExpressionInvalid) as problem:
        compile_text("all\nis {% fro x in y %}")

    assert str(problem.value).splitlines()[1:] == ["    is {% fro x in y %}", "       ^"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% for x in initial.number %}{% endfor %}", "'for' goes over a list, but a number came"),
        ("{% for x in initial.yes %}{% endfor %}", "'for' goes over a list, but a boolean came"),
        ("{% for x in initial.tags limit: '2' %}{% endfor %}",
         "the limit of 'for' is a whole number from 0 on, but \"2\" came"),
        ("{% for x in initial.tags offset: -1 %}{% endfor %}",
         "the offset of 'for' is a whole number from 0 on, but -1 came"),
        ("{% for x in initial.tags %}{{ x + 1 }}{% endfor %}", "cannot add a number to text"),
    ],
)  # fmt: skip
def test_a_tag_that_cannot_be_carried_out_fails(text: str, message: str) -> None:
    with pytest.raises(TemplateFailed) as failure:
        given(text)

    assert failure.value.reason == message


NESTED = "{% for a in (1..1000) %}{% for b in (1..1000) %}{% for c in (1..1000) %}x{% endfor %}{% endfor %}{% endfor %}"
LAUGHS = "{% assign x = ['ha'] %}{% for i in (1..60) %}{% assign x = [x, x] %}{% endfor %}{{ x }}"
DEEP = "{% assign x = [] %}{% for i in (1..50000) %}{% assign x = [x] %}{% endfor %}{{ x }}"
DOUBLED = "{% assign x = 'ha' %}{% for i in (1..60) %}{% assign x = x + x %}{% endfor %}{{ x }}"
APPENDED = "{% assign x = 'ha' %}{% for i in (1..60) %}{% assign x = x | append: x %}{% endfor %}{{ x }}"
SQUARED = "{% assign x = 99 %}{% for i in (1..60) %}{% assign x = x * x %}{% endfor %}{{ x }}"
WRITTEN = "{% for i in (1..100000) %}<< initial.long >>{% endfor %}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{% for i in (1..1000000000) %}{% endfor %}", "a range of more than 100,000 numbers"),
        (NESTED, "the loops of one text go round more than 100,000 times"),
        (LAUGHS, "the assigned values grow too large"),
        (DEEP, "the assigned values grow too large"),
        (DOUBLED, "text longer than 16,777,216 characters"),
        (APPENDED, "16,777,216 characters"),
        (SQUARED, "a number of more than 4,300 digits"),
        (WRITTEN, "the text grows past 16,777,216 characters"),
    ],
)
def test_no_text_computes_without_bound(text: str, message: str) -> None:
    scope = Scope({"initial": {"long": "x" * 1000}})
    start = time.monotonic()
    with pytest.raises(TemplateFailed, match=message):
        compile_text(text).evaluate(scope, lambda missing: None)

    assert time.monotonic() - start < 10


def test_what_is_missing_is_told_once_for_each_time_it_is_used() -> None:
    missing: list[Missing] = []
    text = compile_text("{% for t in initial.tags %}{{ t.name }}{% endfor %}{% if initial.nmae %}x{% endif %}")

    assert text.evaluate(Scope({"initial": INITIAL}), missing.append) == ""
    assert [each.path for each in missing] == ["t.name", "t.name", "t.name", "initial.nmae"]


def listed(text: str) -> list[str]:
    return [path.text for path in compile_text(text).paths]


def test_loop_variables_and_assigned_names_are_not_listed() -> None:
    assert listed("{% for t in a.b limit: c %}{{ t.x }}{{ forloop.index }}{{ d[t] }}{% endfor %}{{ t.y }}") == [
        "a.b",
        "c",
        "d[t]",
        "t.y",
    ]
    assert listed("{{ x }}{% assign x = y | append: z %}{{ x.w }}{% if x and u %}{% endif %}") == ["x", "y", "z", "u"]
    assert listed("{% case a %}{% when b, c %}{{ d }}{% else %}{{ e }}{% endcase %}") == ["a", "b", "c", "d", "e"]


def test_a_name_that_a_loop_assigns_for_its_next_time_is_not_listed() -> None:
    assert listed("{% for t in a %}{% if last == t %}{{ b }}{% endif %}{% assign last = t %}{% endfor %}") == ["a", "b"]
