"""``flo show NAME --diagram``: a stored workflow as a Mermaid flowchart."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flo.engine.commands.diagram import diagram
from flo.engine.registry import Registry

RECIPES = sorted((Path(__file__).resolve().parents[2] / "recipes").glob("*.json"))
REGISTRY = Registry.installed()
NASTY = 'a "q" [b] {c} (d) #35; <<e>> `f` | end\nnext; style x:#1; 1. y - z * _w_ $$m$$ && %% --> --- é 😀 "]) end'

_LABEL = r'"(?P<label>(?:[^"\n])*)"'
_NODE = re.compile(rf"(?P<id>[a-z]\w*)(?P<open>\[|\(\[|\{{){_LABEL}(?P<close>\]|\]\)|\}})")
_SUBGRAPH = re.compile(rf"subgraph (?P<id>[a-z]\w*)\[{_LABEL}\]")
_EDGE = re.compile(rf"(?P<first>[a-z]\w*) (?P<arrow>-->|-\.->)(?:\|{_LABEL}\|)? (?P<second>[a-z]\w*)")
_CLASS = re.compile(r"classDef unknown stroke-dasharray: 5 5|class (?P<ids>[a-z]\w*(?:,[a-z]\w*)*) unknown")
_CLOSING = {"[": "]", "([": "])", "{": "}"}
_CODE = re.compile(r"#(\d+);")


@dataclass
class Picture:
    """A flowchart as it was read. ``around`` gives the subgraph in which something stands."""

    labels: dict[str, str] = field(default_factory=dict)
    around: dict[str, str | None] = field(default_factory=dict)
    edges: list[tuple[str, str, str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def named(self, label: str) -> str:
        """The id of what begins with a label."""
        (found,) = [held for held, text in self.labels.items() if re.split(r"<br/>| \(", text)[0] == label]
        return found

    def tied(self) -> set[tuple[str, str, str, str]]:
        """The edges by the first words of their ends."""
        names = {held: re.split(r"<br/>| \(", text)[0] for held, text in self.labels.items()}
        return {(names[first], arrow, label, names[second]) for first, arrow, label, second in self.edges}


def read(text: str) -> Picture:
    """Read a flowchart by the part of Mermaid's grammar that flo writes, strictly: nothing else may stand in it."""
    first, *lines = text.splitlines()
    assert first == "flowchart TD"
    assert text.endswith("\n")
    picture, opened = Picture(), list[str]()
    for line in lines:
        depth = (len(line) - len(line.lstrip(" "))) // 4
        line = line.strip(" ")
        if line == "end":
            opened.pop()
            assert depth == len(opened) + 1
        elif found := _SUBGRAPH.fullmatch(line) or _NODE.fullmatch(line):
            assert found["id"] not in picture.labels
            assert depth == len(opened) + 1
            if "close" in found.groupdict():
                assert _CLOSING[found["open"]] == found["close"]
            picture.labels[found["id"]] = decoded(found["label"])
            picture.around[found["id"]] = opened[-1] if opened else None
            if line.startswith("subgraph "):
                opened.append(found["id"])
        elif found := _EDGE.fullmatch(line):
            assert not opened
            picture.edges.append((found["first"], found["arrow"], decoded(found["label"] or ""), found["second"]))
        else:
            found = _CLASS.fullmatch(line)
            assert found, line
            picture.unknown += found["ids"].split(",") if found["ids"] else []
    assert not opened
    assert {end for edge in picture.edges for end in (edge[0], edge[3])} <= picture.labels.keys()
    assert set(picture.unknown) <= picture.labels.keys()
    return picture


def decoded(label: str) -> str:
    """What a label shows: nothing in it may be read as Markdown, as markup but a line end, or as a formula."""
    plain = _CODE.sub("", label.replace("<br/>", ""))
    assert not re.search(r'["#;:<>&*`~\[\]{}\\]|\$\$|%%|\n', plain), label
    return _CODE.sub(lambda found: chr(int(found[1])), label)


def log(step_id: str, **fields: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "core.log", "input": {"message": "x"}, **fields}


def drawn(*steps: dict[str, Any], **fields: Any) -> Picture:
    return read(diagram({"steps": list(steps), **fields}, REGISTRY))


def test_a_list_is_a_chain_and_depends_on_a_graph() -> None:
    plain = drawn(log("a"), log("b"), log("c"))
    assert plain.tied() == {("a", "-->", "", "b"), ("b", "-->", "", "c")}
    graph = drawn(log("a"), log("b", dependsOn=[]), log("join", dependsOn=["b", "a"]), log("next"))
    assert graph.tied() == {("a", "-->", "", "join"), ("b", "-->", "", "join"), ("join", "-->", "", "next")}
    assert plain.labels[plain.named("a")] == "a<br/>core.log"


def test_an_arrow_is_dashed_where_the_failure_of_its_step_is_tolerated() -> None:
    held = {"stepId": "held", "stepType": "core.if", "input": {"condition": True, "then": [log("c")]}}
    held["input"]["continueOnError"] = True
    each = {"stepId": "each", "stepType": "core.for-each", "input": {"items": [], "steps": [log("d")]}}
    each["input"]["continueOnError"] = True
    tied = drawn(log("a", onFailure="continue"), log("b", continueOnError=True), held, each, log("end")).tied()
    assert {edge[:2] for edge in tied if edge[1] == "-.->"} == {("a", "-.->"), ("b", "-.->"), ("held", "-.->")}


def test_what_holds_steps_is_a_subgraph_with_its_branches_labelled() -> None:
    steps = [
        {
            "stepId": "check",
            "stepType": "core.if",
            "input": {"condition": "<< initial.n > 1 >>", "then": [log("a"), log("b")], "else": [log("c")]},
        },
        {
            "stepId": "pick",
            "stepType": "CORE__SWITCH",
            "input": {
                "cases": [
                    {"caseId": "one", "when": True, "steps": [log("d")]},
                    {"caseId": "none", "when": True, "steps": []},
                ],
                "default": [log("e")],
            },
        },
        {"stepId": "both", "stepType": "core.parallel", "input": {"steps": [log("f"), log("g")]}},
        {
            "stepId": "guard",
            "stepType": "core.try",
            "input": {
                "steps": [{"stepId": "turns", "stepType": "core.repeat", "input": {"times": 2, "steps": [log("h")]}}],
                "catch": [log("i")],
                "finally": [log("j")],
            },
        },
        {"stepId": "call", "stepType": "core.sub-workflow", "input": {"workflow": {"steps": [log("a"), log("k")]}}},
        {"stepId": "empty", "stepType": "core.parallel", "input": {"steps": []}},
    ]
    picture = drawn(*steps)
    titles = {picture.labels[held] for held in set(picture.around.values()) if held}
    assert titles == {
        *("check (core.if)", "pick (core.switch)", "both (core.parallel)", "guard (core.try)", "turns (core.repeat)"),
        *("call (core.sub-workflow)", "steps", "catch", "finally"),
    }
    assert picture.tied() >= {
        ("initial.n > 1", "-->", "then", "a"),
        ("initial.n > 1", "-->", "else", "c"),
        ("the first case that holds", "-->", "one", "d"),
        ("the first case that holds", "-->", "default", "e"),
        ("steps", "-->", "failure", "catch"),
        ("catch", "-->", "", "finally"),
        ("a", "-->", "", "b"),
        ("a", "-->", "", "k"),
        ("guard", "-->", "", "call"),
    }
    assert not any("none" in edge or "f" in edge for edge in picture.tied())
    assert picture.labels[picture.named("empty")] == "empty<br/>core.parallel"
    assert picture.around[picture.named("h")] == picture.named("turns")


def test_triggers_are_the_start_one_that_is_off_tied_by_a_dashed_line() -> None:
    triggers = [
        {"name": "mornings", "type": "schedule", "config": {"schedule": {"cron": "0 6 * * *"}}},
        {"name": "after", "type": "event", "enabled": False, "config": {"event": {"workflow": "other"}}},
        {"type": "manual"},
    ]
    picture = drawn(log("a"), log("b", dependsOn=[]), log("c", dependsOn=["a", "b"]), triggers=triggers)
    shown = [text for text in picture.labels.values() if "core.log" not in text]
    assert shown == ["mornings<br/>0 6 * * * UTC", "after<br/>when 'other' has finished", "by hand"]
    assert {edge for edge in picture.tied() if edge[0] != "a" and edge[0] != "b"} == {
        (start, arrow, "", first)
        for start, arrow in (("mornings", "-->"), ("after", "-.->"), ("by hand", "-->"))
        for first in ("a", "b")
    }


@pytest.mark.parametrize(
    "text", [NASTY, *'"[](){}#;:<>|`*_~&\\%$-+.\u2028', "1. a", "end", "style a:#;", "$$x$$", "%%{init: {}}%%", "&amp;"]
)
def test_no_text_of_a_document_breaks_the_picture(text: str) -> None:
    one_line = " ".join(text.split())
    picture = drawn(
        {
            "stepId": "pick",
            "stepType": "core.switch",
            "skipCondition": text,
            "input": {"cases": [{"caseId": text, "when": {"==": [text, 1]}, "steps": [log("a")]}]},
        },
        {"stepId": "other", "stepType": f"acme.{text}"},
        triggers=[{"name": text, "type": "event", "config": {"event": {"workflow": text}}}, {"type": text}],
    )
    assert ("the first case that holds", "-->", one_line, "a") in {
        (*edge[:2], edge[2], edge[3]) for edge in picture.tied()
    }
    assert picture.labels[picture.named("other")].removeprefix("other<br/>") == " ".join(f"acme.{text}".split())


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.stem)
def test_every_recipe_is_drawn_with_all_its_steps(recipe: Path) -> None:
    text = recipe.read_text(encoding="utf-8")
    picture = read(diagram(text, REGISTRY))
    ids = re.findall(r'"stepId": "([^"]*)"', text)
    assert all(picture.named(step_id) for step_id in ids)
    assert diagram(text, REGISTRY) == diagram(json.loads(text), Registry.installed())


def test_show_draws_the_version_that_is_asked_for(flo: Any, save: Any) -> None:
    flo("add", save({"name": "greet", "steps": [log("a")]}))
    flo("add", save({"name": "greet", "steps": [log("a"), log("b")]}))
    assert read(flo("show", "greet", "--diagram").out).tied() == {("a", "-->", "", "b")}
    old = flo("show", "greet", "--diagram", "--version", "1")
    assert (old.code, read(old.out).edges) == (0, [])
    both = flo("show", "greet", "--diagram", "--json")
    assert (both.code, both.out) == (1, "")
    assert flo("show", "gret", "--diagram").err == "error: no stored workflow 'gret'; did you mean 'greet'?\n"


def test_steps_of_a_type_that_is_not_installed_have_a_dashed_frame() -> None:
    picture = drawn(log("a"), {"stepId": "b", "stepType": "acme.hold", "input": {"steps": [log("c")]}}, log("d"))
    assert picture.unknown == [picture.named("b")]
    assert picture.tied() == {("a", "-->", "", "b"), ("b", "-->", "", "d")}
    assert "c" not in picture.labels.values()


def test_where_nothing_stops_at_an_error_every_arrow_leads_on_after_one() -> None:
    steps = [{"stepId": name, "stepType": "core.log", "input": {"message": "x"}} for name in ("a", "b")]
    assert "s1 -.-> s2" in diagram({"steps": steps, "options": {"stopOnError": False}}, REGISTRY)
    assert "s1 --> s2" in diagram({"steps": steps}, REGISTRY)
