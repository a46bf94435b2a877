"""Who sees whom, and in which order steps run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from flo.engine.checking.load import Checked
from flo.engine.errors import Problem

Check = Callable[[Any], Checked]
Told = Callable[[Any], list[str]]
Problems = Callable[[Any], list[Problem]]


def say(step_id: str, message: Any = "", **fields: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": "t.say", "input": {"message": message}, **fields}


def holds(step_id: str, kind: str, **given: Any) -> dict[str, Any]:
    return {"stepId": step_id, "stepType": f"t.{kind}", "input": given}


def loop(step_id: str, *steps: Any, **given: Any) -> dict[str, Any]:
    return holds(step_id, "each", items=[1], steps=list(steps), **given)


SEEN: dict[str, list[Any]] = {
    "the step before": [say("a"), say("b", "<< a.x >>")],
    "any earlier step": [say("a"), say("b"), say("c", "{{ a.x }} {{ b.y }}")],
    "a step before the container": [say("a"), holds("i", "if", when="<< a.x >>", then=[say("b", "<< a.x >>")])],
    "what ran in a branch, afterwards": [holds("i", "if", when=True, then=[say("a")]), say("b", "<< a.x >>")],
    "what ran in a case, afterwards": [
        holds("s", "switch", cases=[{"id": "1", "when": True, "steps": [say("a")]}]), say("b", "<< a.x >>")],
    "what ran at once, afterwards": [holds("p", "all", steps=[say("a"), say("b")]), say("c", "<< a.x + b.x >>")],
    "in catch what was tried": [holds("t", "try", steps=[say("a")], catch=[say("b", "<< a.x >>")])],
    "in finally what was tried and caught": [
        {"stepId": "t", "stepType": "t.try",
         "input": {"steps": [say("a")], "catch": [say("b")], "finally": [say("c", "<< a.x >> << b.x >>")]}}],
    "within an iteration, its own steps": [loop("l", say("a", "<< $item.x >>"), say("b", "<< a.x >> << $index >>"))],
    "the results of a loop": [loop("l", say("a")), say("b", "<< l.items >>")],
    "loop names deep inside": [
        loop("l", holds("i", "if", when="<< $isFirst >>", then=[say("a", "<< $parent.item >>")]))],
    "the coming index in a loop's own condition": [loop("l", until="<< $index > 3 >>")],
    "dependencies in a graph": [say("a"), say("b", dependsOn=[]), say("c", "<< a.x + b.x >>", dependsOn=["a", "b"])],
    "a dependency of a dependency": [say("a"), say("b", dependsOn=["a"]), say("c", "<< a.x >>", dependsOn=["b"])],
    "the step before, in a graph": [say("a"), say("b", dependsOn=[]), say("c", "<< b.x >>")],
    "every name that is always there": [say(
        "a", "<< initial.x >> << $vars.x >> << $env.X >> << $connections.x >> << $execution.id >> << $errors.size >>"
             " << $util.now >>")],
    "the meta data of a step": [say("a"), say("b", "<< a.$meta.success >> << a.$meta.error.code >>")],
    "names that a block tag makes": [say("a", "{% assign n = 1 %}{% for x in initial.y %}{{ x }}{{ n }}{% endfor %}")],
    "JSONLogic over a step": [say("a"), say("b", skipCondition={"==": [{"var": "a.x"}, "<< a.y >>"]})],
}  # fmt: skip

UNSEEN: list[tuple[list[Any], str]] = [
    ([say("a", "<< nostep.x >>")], "steps[0].input.message: no step or name 'nostep'"),
    ([say("first"), say("b", "<< frist.x >>")],
     "steps[1].input.message: no step or name 'frist'; did you mean 'first'?"),
    ([say("a", "<< intial.x >>")], "steps[0].input.message: no step or name 'intial'; did you mean 'initial'?"),
    ([say("a", "<< later.x >>"), say("later")], "steps[0].input.message: 'later' runs after this step"),
    ([say("a", "<< a.x >>")], "steps[0].input.message: 'a' is this step itself"),
    ([loop("l", say("a", "<< l.count >>"))], "steps[0].input.steps[0].input.message: 'l' is around this step"),
    ([loop("l", say("a")), say("b", "<< a.x >>")],
     "steps[1].input.message: 'a' ran inside loop 'l'; read its results from 'l.items'"),
    ([loop("o", loop("l", say("a"))), say("b", "<< a.x >>")],
     "steps[1].input.message: 'a' ran inside loop 'o'; read its results from 'o.items'"),
    ([loop("o", loop("l", say("a")), say("b", "<< a.x >>"))],
     "steps[0].input.steps[1].input.message: 'a' ran inside loop 'l'; read its results from 'l.items'"),
    ([holds("i", "if", when=True, then=[say("a")], **{"else": [say("b", "<< a.x >>")]})],
     "steps[0].input.else[0].input.message: 'a' is in another branch of 'i'"),
    ([holds("s", "switch", cases=[{"steps": [say("a")]}, {"steps": [say("b", "<< a.x >>")]}])],
     "steps[0].input.cases[1].steps[0].input.message: 'a' is in another branch of 's'"),
    ([holds("t", "try", steps=[say("b", "<< a.x >>")], catch=[say("a")])],
     "steps[0].input.steps[0].input.message: 'a' is in another branch of 't'"),
    ([holds("p", "all", steps=[say("a"), say("b", "<< a.x >>")])],
     "steps[0].input.steps[1].input.message: 'a' runs at the same time"),
    ([say("a"), say("b", dependsOn=[]), say("c", "<< a.x >>", dependsOn=["b"])],
     "steps[2].input.message: 'a' need not have ended when this step starts; add 'a' to 'dependsOn' of 'c'"),
    ([holds("i", "if", when="<< a.x >>", then=[say("a")])], "steps[0].input.when: 'a' runs inside this step"),
    ([say("a", "<< $item.x >>")], "steps[0].input.message: '$item' is only there inside a loop"),
    ([say("a", skipCondition="<< $index == 0 >>")], "steps[0].skipCondition: '$index' is only there inside a loop"),
    ([say("a", "<< $util.uiid >>")], "steps[0].input.message: '$util' has no 'uiid'; did you mean 'uuid'?"),
    ([say("a", "<< $execution.ID2 >>")], "steps[0].input.message: '$execution' has no 'ID2'; did you mean 'id'?"),
    ([say("a"), say("b", "<< a.$meta.sucess >>")],
     "steps[1].input.message: '$meta' has no 'sucess'; did you mean 'success'?"),
    ([say("a", skipCondition={"==": [{"var": "nostep.x"}, 1]})], "steps[0].skipCondition"),
    ([say("a", "<< initial.x | upcas >>")], "steps[0].input.message: no filter 'upcas'; did you mean 'upcase'?"),
    ([say("a", ["x", {"k": "<< 1 + >>"}])], "steps[0].input.message[1].k: "),
    ([loop("l", say("a")), say("b", "<< l.itms >>", skipCondition="<< nostep >>")],
     "steps[1].input.message: t.each gives no 'itms'; did you mean 'items'?"),
]  # fmt: skip


@pytest.mark.parametrize("steps", SEEN.values(), ids=SEEN.keys())
def test_a_step_sees(steps: list[Any], check: Check) -> None:
    assert check(steps).warnings == ()


@pytest.mark.parametrize(("steps", "expected"), UNSEEN, ids=[expected for _, expected in UNSEEN])
def test_a_step_does_not_see(steps: list[Any], expected: str, told: Told) -> None:
    lines = told(steps)
    assert any(line.startswith(expected) for line in lines), lines


def test_a_problem_in_an_expression_shows_it_with_a_caret(problems: Problems) -> None:
    (problem,) = problems([say("first"), say("b", "of << initial.a + frist.x >>")])
    assert problem.message.splitlines()[1:] == ["    initial.a + frist.x", "                ^"]


def test_an_output_that_a_step_type_does_not_give_is_a_warning(check: Check) -> None:
    read = {"stepId": "r", "stepType": "t.read", "input": {"table": "ops"}}
    (warning,) = check([read, say("b", "<< r.rwos[0].x >>")]).warnings
    assert (warning.severity, warning.step_id) == ("warning", "b")
    assert warning.message.startswith("t.read gives no 'rwos'; did you mean 'rows'?")
    assert check([{"stepId": "x", "stepType": "t.any"}, say("b", "<< x.whatever >>")]).warnings == ()


def test_nothing_is_said_about_steps_inside_one_whose_type_is_not_known(told: Told) -> None:
    unknown = {"stepId": "u", "stepType": "t.eahc", "input": {"steps": [say("inner", "<< $item >>")]}}
    steps = [unknown, say("b", "<< u.x >> << inner.y >>"), say("c", dependsOn=["u"])]
    (line,) = told(steps)
    assert line.startswith("steps[0].stepType: no step type 't.eahc'; did you mean 't.each'?")
    assert "acme.steps (acme/steps.py:7: ImportError: no module named 'gone')" in line


def test_step_types_are_found_without_regard_to_case_and_by_two_underscores(check: Check) -> None:
    steps = check([{**say("a"), "stepType": "T.Say"}, {**say("b"), "stepType": "t__say"}]).workflow.block.steps
    assert [step.type for step in steps] == ["t.say", "t.say"]


def test_a_step_id_is_unique_over_every_depth(told: Told) -> None:
    (line,) = told([loop("l", say("a")), say("a")])
    assert line.startswith("steps[1].stepId: another step inside 'l' has the stepId 'a' already")


@pytest.mark.parametrize(
    ("depends", "needs", "plain"),
    [
        ([None, None, None], ((), (0,), (1,)), True),
        ([None, [], None], ((), (), (1,)), False),
        ([[], [], ["a", "b"]], ((), (), (0, 1)), False),
        ([["c"], None, []], ((2,), (0,), ()), False),
    ],
)
def test_a_list_knows_what_each_step_waits_for(
    depends: list[Any], needs: tuple[tuple[int, ...], ...], plain: bool, check: Check
) -> None:
    steps = [
        say(name) if wanted is None else say(name, dependsOn=wanted)
        for name, wanted in zip("abc", depends, strict=True)
    ]
    block = check(steps).workflow.block
    assert (block.needs, block.plain) == (needs, plain)
    assert [step.depends_on for step in block.steps] == [None if held is None else tuple(held) for held in depends]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([say("a", dependsOn=["a"])], "steps[0].dependsOn: a step cannot wait for itself: a → a"),
        ([say("a", dependsOn=["c"]), say("b"), say("c")],
         "steps[0].dependsOn: steps wait for each other in a circle: a → c → b → a"),
        ([say("x"), say("a", dependsOn=["b"]), say("b", dependsOn=["a"]), say("c", dependsOn=["a"])],
         "steps[1].dependsOn: steps wait for each other in a circle: a → b → a"),
        ([say("alpha"), say("b", dependsOn=["alhpa"])],
         "steps[1].dependsOn[0]: no step 'alhpa'; did you mean 'alpha'?"),
        ([loop("l", say("a")), say("b", dependsOn=["a"])], "steps[1].dependsOn[0]: 'a' is not in the list of 'b'"),
        ([holds("p", "all", steps=[say("a"), say("b", dependsOn=["a"])])],
         "steps[0].input.steps[1].dependsOn: the steps of 'p' all start at once"),
    ],
)  # fmt: skip
def test_an_order_that_cannot_be_is_refused(steps: list[Any], expected: str, told: Told) -> None:
    (line,) = told(steps)
    assert line.startswith(expected)


def test_two_circles_are_two_problems(told: Told) -> None:
    pairs = [say(name, dependsOn=[other]) for name, other in ("ab", "ba", "cd", "dc")]
    assert len(told(pairs)) == 2


def test_a_long_list_is_checked_in_time_that_grows_with_it(check: Check) -> None:
    ids = [f"s{at}" for at in range(1500)]
    rest = [say(step_id, f"<< {before}.x >> << s0.x >>", dependsOn=[before]) for before, step_id in pairwise(ids)]
    steps = [say("s0"), *rest]
    assert len(check(steps).workflow.block.steps) == len(steps)


def test_what_is_resolved_before_a_run_sees_what_is_there_then(check: Check, told: Told) -> None:
    schedule = {"cron": "* * * * *", "initialData": {"since": "<< $util.now >>", "at": "<< initial.scheduledAt >>"}}
    trigger = {"type": "schedule", "config": {"schedule": schedule}}
    document = {"steps": [say("a")], "triggers": [trigger], "options": {"concurrencyKey": "<< initial.tenant >>"}}
    assert check(document).warnings == ()
    schedule["initialData"] = {"x": "<< a.y >>", "y": "<< $execution.id >>"}
    document["options"] = {"concurrencyKey": "<< $vars.x >>"}
    assert [line.partition(";")[0] for line in told(document)] == [
        "triggers[0].config.schedule.initialData.x: 'a' is not there before the run begins",
        "triggers[0].config.schedule.initialData.y: '$execution' is not there before the run begins",
        "options.concurrencyKey: '$vars' is not there before the run begins",
    ]
