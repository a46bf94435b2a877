"""What holds for every text and every value."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language.expressions import compile_expression
from flo.engine.language.filters import FILTERS
from flo.engine.language.scope import Scope
from flo.engine.language.templates import compile_template, compile_text, has_marks
from flo.engine.values import Json, dump

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
WORDS = """
{{ }} << >> {% %} {{- -}} ( ) [ ] { } . , : | + - * / % == != < > .. ' " \\ a-b é
if else elsif endif unless endunless for in endfor assign = case when endcase comment endcomment raw endraw
break continue limit offset reversed not and or contains empty blank null true 0 -1 2.5 1e9 99999 'a' "b"
initial initial.x initial.list $item $util forloop.index (1..9) [1,2] {'a':1}
"""
SOUP = st.lists(st.sampled_from([*WORDS.split(), *(f"| {name}" for name in sorted(FILTERS))]), max_size=25).map(
    " ".join
)
SCOPE = Scope({"initial": {"x": "<b>5</b>", "list": [3, "1", None, {"a": 2}]}, "$item": 1.5})


def assert_value_or_clear_error(text: str) -> None:
    with suppress(ExpressionInvalid, TemplateFailed):
        dump(compile_text(text).evaluate(SCOPE, lambda missing: None))


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_gives_a_value_or_a_clear_error(text: str) -> None:
    assert_value_or_clear_error(text)


@settings(max_examples=600, deadline=None)
@given(SOUP)
@example("{{ initial.x | date: '%' }}")
def test_any_words_of_the_language_give_a_value_or_a_clear_error(text: str) -> None:
    assert_value_or_clear_error(text)
    assert_value_or_clear_error(f"{{{{ {text} }}}}")


@settings(max_examples=400, deadline=None)
@given(VALUES, st.sampled_from(sorted(FILTERS)), st.lists(VALUES, max_size=3))
def test_any_filter_gives_a_value_or_a_clear_error(value: Json, name: str, arguments: list[Json]) -> None:
    scope = Scope({"value": value, "arguments": list(arguments)})
    given_arguments = ", ".join(f"arguments[{index}]" for index in range(len(arguments)))
    with suppress(TemplateFailed):
        text = f"value | {name}({given_arguments})"
        if not FILTERS[name].least <= len(arguments) <= FILTERS[name].most:
            with pytest.raises(ExpressionInvalid, match="argument"):
                compile_expression(text)
        else:
            dump(compile_expression(text).evaluate(scope, lambda missing: None))


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_any_value_comes_out_of_a_lone_expression_as_it_went_in(value: Json) -> None:
    scope = Scope({"initial": {"x": value}})
    for text in ("<< initial.x >>", "{{initial['x']}}", "<< (initial).x >>", "{{ [initial.x][0] }}"):
        found = compile_template([text]).resolve(scope, lambda missing: None)
        assert dump(found) == dump([value])


@settings(max_examples=200, deadline=None)
@given(TEXT, SOUP, TEXT)
def test_text_from_data_is_never_looked_at_for_marks(before: str, held: str, after: str) -> None:
    scope = Scope({"initial": {"x": before + held + after}})
    for text in ("<< initial.x >>", "a{{ initial.x }}b", "{% if true %}{{ initial.x }}{% endif %}"):
        found = compile_text(text).evaluate(scope, lambda missing: None)
        assert isinstance(found, str)
        assert before + held + after in found


@settings(max_examples=200, deadline=None)
@given(TEXT | SOUP)
def test_text_without_marks_stays_as_it_is(text: str) -> None:
    if not has_marks(text):
        assert compile_text(text).constant
        assert compile_text(text).evaluate(Scope(), lambda missing: None) == text


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\\'")))
def test_quoted_text_gives_itself(text: str) -> None:
    assert compile_text(f"<< '{text}' >>").evaluate(Scope(), lambda missing: None) == text
