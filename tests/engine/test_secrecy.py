"""Secrets keep their mark through what expressions make of them, and nets find those that lost it."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flo.engine.errors import TemplateFailed
from flo.engine.hiding import hidden_places, secrets_in
from flo.engine.language.logic import apply
from flo.engine.language.scope import Missing, Scope
from flo.engine.language.templates import compile_template
from flo.engine.netting import Net
from flo.engine.sealing import Keys, new_key
from flo.engine.secrecy import Lost, Secret, shown_forms
from flo.engine.values import dump, plain, shown, whole
from flo.engine.vault import NoSettings, Vault
from flo.engine.vaults import Vaults

KEY = "ab'c\"d"
"""A secret with quotes in it."""


def refuse(missing: Missing) -> None:
    raise AssertionError(missing.path)


def resolve(template: Any, **names: Any) -> Any:
    scope = Scope({"$env": {"KEY": Secret(KEY), "PIN": Secret("12345678"), "all": {"a": [Secret(KEY)]}}, **names})
    return compile_template(template).resolve(scope, refuse)


@pytest.mark.parametrize(
    ("template", "text", "shown_as"),
    [
        ("<< $env.KEY >>", KEY, "***"),
        ("<< $env['KEY'] >>", KEY, "***"),
        ("<< $env[key] >>", KEY, "***"),
        ("Bearer << $env.KEY >>!", f"Bearer {KEY}!", "Bearer ***!"),
        ("<< 'a' + $env.KEY >>", f"a{KEY}", "a***"),
        ("<< $env.KEY | upcase >>", KEY.upper(), "***"),
        ("<< $env.KEY | replace: 'b', 'x' >>", "ax'c\"d", "***"),
        ("<< 'k=' | append: $env.KEY >>", f"k={KEY}", "***"),
        ("<< 'a-b' | replace: '-', $env.KEY >>", f"a{KEY}b", "***"),
        ("<< $env.KEY | base64_encode >>", "YWInYyJk", "***"),
        ("<< $env.KEY | slice: 0, 2 >>", "ab", "***"),
        ("<< $env.KEY.first >>", "a", "***"),
        ("<< $env.KEY | sha256 >>", None, "***"),
        ("<< 'x' | hmac_sha256: $env.KEY >>", None, "***"),
        ("<< $env.all | json >>", None, "***"),
        ("is << $env.all >>", None, 'is {"a":["***"]}'),
        ("<< $env.all.a | join: '-' >>", KEY, "***"),
        ("{% if true %}<< $env.KEY >>{% endif %}.", f"{KEY}.", "***."),
        ("{% assign k = $env.KEY %}<< k >>", KEY, "***"),
        ("{% for k in $env.all.a %}<< k >>,{% endfor %}", f"{KEY},", "***,"),
        ("<< nothing | default: $env.KEY >>", KEY, "***"),
        ("<< $env.KEY if true else 'b' >>", KEY, "***"),
    ],
)
def test_text_that_is_made_of_a_secret_is_one(template: str, text: str | None, shown_as: str) -> None:
    made = resolve(template, key="KEY", nothing=None)
    assert isinstance(made, Secret)
    assert made.shown == shown_as
    assert text is None or made == text


def test_what_is_split_or_read_from_a_secret_is_secret_in_every_part() -> None:
    parts = resolve("<< $env.KEY | split: '' >>")
    assert [str(part) for part in parts] == list(KEY)
    assert all(isinstance(part, Secret) for part in parts)
    read = resolve("<< text | parse_json >>", text=Secret('{"a": ["b", 1]}'))
    assert read == {"a": ["b", 1]}
    assert isinstance(read["a"][0], Secret)


@pytest.mark.parametrize(
    ("template", "given"),
    [
        ("<< plain | default: $env.KEY >>", "plain"),
        ("<< plain | upcase >>", "PLAIN"),
        ("<< list | push: $env.KEY | first >>", "one"),
        ("<< list | concat: $env.all.a | size >>", 2),
        ("<< $env.KEY == 'x' >>", False),
        ("<< $env.KEY | size >>", 6),
    ],
)
def test_what_is_not_made_of_the_secret_has_no_mark(template: str, given: Any) -> None:
    made = resolve(template, plain="plain", list=["one"])
    assert made == given
    assert not isinstance(made, Secret)


def test_an_element_beside_a_secret_keeps_the_mark_that_it_has() -> None:
    made = resolve("<< list | push: $env.KEY >>", list=["one"])
    assert [type(part) for part in made] == [str, Secret]


def test_jsonlogic_carries_the_mark() -> None:
    data: Any = {"k": Secret(KEY)}
    assert isinstance(apply({"cat": ["a ", {"var": "k"}]}, data), Secret)
    assert isinstance(apply({"substr": [{"var": "k"}, 1]}, data), Secret)
    assert isinstance(apply({"if": [True, {"var": "k"}]}, data), Secret)
    assert not isinstance(apply({"cat": ["a", "b"]}, data), Secret)


def test_a_filter_that_fails_does_not_say_what_it_was_given() -> None:
    with pytest.raises(TemplateFailed) as failed:
        resolve("<< $env.KEY | replace: 'a', 'zzzz' | to_number >>")
    assert "zzzzb" not in str(failed.value)
    assert "***" in str(failed.value)


def test_a_mark_survives_copies_of_values_and_pickling() -> None:
    value: Any = {"a": [Secret(KEY, "my ***")]}
    for copy in (plain(value), whole(value), pickle.loads(pickle.dumps(value))):
        (secret,) = secrets_in(copy)
        assert secret == KEY
        assert isinstance(secret, Secret)
        assert secret.shown == "my ***"
    assert shown(value["a"][0]) == '"my ***"'
    assert repr(value) == "{'a': [Secret('my ***')]}"


@pytest.mark.parametrize(
    "said",
    [
        f"key {KEY} is wrong",
        "key AB'C\"D is wrong",
        repr(KEY),
        dump({"a": KEY}),
        "GET /?k=ab%27c%22d",
        "GET /?k=ab%27c%22D",
        "<p>ab&#x27;c&quot;d</p>",
        "hex 616227632264",
    ],
)
def test_a_net_finds_a_secret_in_the_spellings_that_programs_give_it(said: str) -> None:
    masked = Net([KEY]).mask(said)
    assert "***" in masked
    assert KEY.lower() not in masked.lower()
    assert len(masked) < len(said) or masked == "***"


def test_a_net_finds_a_secret_inside_other_base64() -> None:
    from base64 import b64encode

    secret = "correct horse battery"
    for before in ("", "a", "ab", "abc", "user:"):
        code = b64encode(f"{before}{secret}:tail".encode()).decode()
        masked = Net([secret]).mask(f"Authorization: Basic {code}")
        assert "***" in masked, before
        assert len(masked) < len(code)


def test_a_net_leaves_other_text_and_short_secrets_alone() -> None:
    net = Net(["abc", "a longer secret"])
    value: Any = {"abc": ["abcdef", 1, None, "no secret here"]}
    assert net.catch(value) is value
    assert net.mask("abc") == "abc"
    assert not Net(["abc"])


def test_a_net_marks_what_it_catches() -> None:
    caught: Any = Net([KEY]).catch({"said": [f"you sent {KEY}", "fine"], f"x{KEY}": 1})
    first, second = caught["said"]
    assert (str(first), first.shown, type(second)) == (f"you sent {KEY}", "you sent ***", str)
    assert shown_forms(caught) == {"said": ["you sent ***", "fine"], "x***": 1}


def test_nets_of_a_step_know_what_the_run_knows() -> None:
    net = Net(["derived one"], Net([KEY]))
    assert net.mask(f"{KEY} and DERIVED ONE") == "*** and ***"
    assert net.shown({"a": f"{KEY}"}) == {"a": "***"}


SET = NoSettings(env={"KEY": Secret(KEY), "PIN": Secret("12345678")})


def vault(*, keys: Keys | None = None, execution: str = "e1", begun: bool = False) -> Vault:
    """The vault of an execution in a process of its own."""
    return Vaults(lambda name: SET, lambda: keys).of(execution, None, begun=begun)


VALUE: Any = {"a": [Secret(KEY, "Bearer ***")], "pin": 12345678, "b": "plain", "n": 1}


def test_what_is_hidden_is_there_again_when_it_is_opened_in_the_same_process() -> None:
    held = vault()
    assert held.settings.env["KEY"] == KEY
    stored = held.hide(VALUE)
    assert KEY not in dump(stored).replace("\\", "")
    assert "12345678" not in dump(stored)
    assert list(hidden_places(stored)) == [("a", 0), ("pin",)]
    assert shown_forms(stored) == {"a": ["Bearer ***"], "pin": "***", "b": "plain", "n": 1}
    opened: Any = held.open(stored)
    assert opened == VALUE
    assert opened["a"][0].shown == "Bearer ***"


def test_without_a_key_another_process_finds_where_a_secret_was() -> None:
    held = vault()
    assert held.settings
    other = vault(begun=True)
    opened: Any = other.open(held.hide(VALUE))
    assert isinstance(opened["a"][0], Lost)
    assert opened["a"][0] == "Bearer ***"
    assert other.lacking
    scope = Scope({"step": opened})
    for template in ("<< step.a[0] >>", "x << step.a.first >>", "<< step.pin | upcase >>"):
        with pytest.raises(TemplateFailed, match="FLO_MASTER_KEY"):
            compile_template(template).resolve(scope, refuse)


def test_with_a_key_another_process_opens_what_is_hidden_and_only_for_its_execution() -> None:
    keys = Keys([new_key()], "test")
    held = vault(keys=keys)
    assert held.settings
    stored = held.hide(VALUE)
    assert KEY not in dump(stored).replace("\\", "")
    assert vault(keys=keys, begun=True).open(stored) == VALUE
    assert vault(keys=keys, execution="e2").open(stored, of="e1") == VALUE
    moved: Any = vault(keys=keys, execution="e2", begun=True).open(stored)
    assert isinstance(moved["a"][0], Lost)
    other: Any = vault(keys=Keys([new_key()], "test"), begun=True).open(stored)
    assert isinstance(other["a"][0], Lost)


def test_a_run_that_came_across_no_secret_hides_nothing() -> None:
    held = vault()
    value: Any = {"a": KEY}
    assert held.hide(value) is value
    assert held.shown(value) is value
    assert held.open(value) is value


def test_what_is_sealed_as_a_whole_is_marked_in_every_part_when_it_is_opened() -> None:
    keys = Keys([new_key()], "test")
    held = vault(keys=keys)
    assert held.settings
    stored = held.hide({"args": {Secret(KEY): {"deep": ["text"]}}, "pin": 12345678})
    assert list(hidden_places(stored)) == [("args",), ("pin",)]
    again = vault(keys=keys, begun=True)
    opened: Any = again.open(stored)
    assert opened == {"args": {KEY: {"deep": ["text"]}}, "pin": 12345678}
    assert KEY not in dump(again.hide(opened)).replace("\\", "")
    assert again.shown({"n": 12345678, "said": f"is {KEY}"}) == {"n": "***", "said": "is ***"}


def test_what_was_kept_of_an_earlier_delivery_never_leads_to_another_secret() -> None:
    vaults = Vaults(lambda name: SET)
    first, second = Secret("the first one"), Secret("the second one")
    before = vaults.of("e1", None)
    stored = before.hide(before.meet({"k": first}))
    vaults.forget("e1")
    after = vaults.of("e1", None, begun=True)
    assert after.hide(after.meet({"k": second})) != stored
    opened: Any = after.open(stored)
    assert isinstance(opened["k"], Lost)


@pytest.mark.parametrize("other", ["", "1", "acme"])
def test_a_short_secret_or_one_inside_another_keeps_no_other_from_being_found(other: str) -> None:
    settings = NoSettings(env={"A": Secret(other), "B": Secret("tok-1-acme-9f8d7s6")})
    held = Vaults(lambda name: settings).of("e1", None)
    assert held.settings
    assert held.net.mask("is tok-1-acme-9f8d7s6!") == "is ***!"


def test_the_environment_is_known_however_many_secrets_came_before() -> None:
    held = vault()
    held.meet([Secret(f"derived number {number}") for number in range(200)])
    assert held.settings
    assert held.net.mask(f"is {KEY}!") == "is ***!"


def test_rows_take_a_secret_in_none_of_its_spellings_and_ordinary_words_that_hold_a_short_one() -> None:
    settings = NoSettings(env={"LONG": Secret("correct horse"), "SHORT": Secret("admin")})
    held = Vaults(lambda name: settings).of("e1", None)
    assert held.settings
    for spelling in ("correct horse", "Y29ycmVjdCBob3JzZQ", "correct%20horse", "636f727265637420686f727365"):
        assert held.holds_secret({"a": [f"x {spelling}"]})
    caught = held.net.catch({"role": "administrator"})
    assert held.shown(caught) == {"role": "***istrator"}
    assert not held.holds_secret(caught)
    assert held.holds_secret({"role": Secret("admin")})
