"""A step type is declared by a function and its types: schemas and conversion follow from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NotRequired, TypedDict

import jsonschema
import pytest

from flo.engine.checking.load import load
from flo.engine.errors import StepFailed, WorkflowInvalid
from flo.engine.registry import Registry
from flo.engine.secrecy import Secret
from flo.engine.step import Outcome, StepCall, step_type
from flo.engine.values import JsonObject
from flo.testing import run_step, run_workflow

from .declared_types import SMALLEST, Color, Everything, Mail, Person, Phone, Tree, declare, everything


def taken(given: Mapping[str, Any]) -> Everything:
    """What the function is given for an input."""
    seen: list[Everything] = []

    @step_type("test.seen")
    def look(call: StepCall, input: Everything) -> dict[str, Any]:
        """Look."""
        seen.append(input)
        return {}

    run_step(look, given)
    return seen[0]


def test_a_schema_follows_from_the_types() -> None:
    schema: Any = everything.schema
    jsonschema.Draft202012Validator.check_schema(schema)
    fields = schema["properties"]
    assert schema["description"] == "All there is. And more."
    assert schema["required"] == ["who", "reach", "at"]
    assert schema["additionalProperties"] is False
    assert fields["who"] == {
        "type": "object",
        "description": "Somebody.",
        "properties": {
            "name": {"type": "string", "minLength": 2, "description": "What they are called."},
            "x-api-key": {"type": "string", "description": "How they come in.", "default": "k"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert fields["at"] == {"type": "string", "format": "date-time"}
    assert fields["on"] == {"type": ["string", "null"], "format": "date", "default": None}
    assert fields["cents"] == {"type": "integer", "default": 5}
    assert fields["price"]["default"] == "1.5"
    assert fields["times"] == {
        "type": "integer", "minimum": 1, "maximum": 5, "description": "How often.", "default": 1,
    }  # fmt: skip
    assert fields["color"] == {"enum": ["blue", "red"], "default": "red"}
    assert fields["mode"] == {"enum": ["fast", "slow", None], "default": None}
    assert fields["people"]["type"] == ["array", "null"]
    assert fields["people"]["minItems"] == 1
    assert fields["people"]["items"] == fields["who"]
    assert fields["scores"] == {"type": "object", "additionalProperties": {"type": "number"}, "default": {}}
    assert fields["either"] == {"type": ["integer", "string", "null"], "default": None}
    assert fields["anything"] == {"default": None}
    assert fields["object"] == {"type": "object", "default": {}}


def test_values_become_what_the_types_say() -> None:
    made = taken(
        {
            **SMALLEST,
            "who": {"name": "Ada", "x-api-key": "secret"},
            "on": "2026-02-01",
            "lasting": "PT5M",
            "price": "2.50",
            "color": "blue",
            "people": [{"name": "Bob"}],
            "scores": {"a b": 1},
            "pair": [2, "b"],
            "tags": ["x", "x"],
            "anything": [None, {"a": 1}],
            "tree": {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]},
        }
    )
    assert made == Everything(
        who=Person("Ada", "secret"),
        reach=Phone(1),
        at=datetime(2026, 1, 31, 9, tzinfo=UTC),
        on=date(2026, 2, 1),
        lasting=timedelta(minutes=5),
        price=Decimal("2.50"),
        color=Color.BLUE,
        people=[Person("Bob")],
        scores={"a b": 1.0},
        pair=(2, "b"),
        tags={"x"},
        anything=[None, {"a": 1}],
        tree=Tree(1, [Tree(2, [Tree(3)])]),
    )
    assert taken(SMALLEST) == Everything(Person("Ada"), Phone(1), made.at)


def test_a_secret_stays_one() -> None:
    made = taken({**SMALLEST, "who": {"name": Secret("sesame")}, "tags": [Secret("open")], "either": Secret("x")})
    assert isinstance(made.who.name, Secret)
    assert all(isinstance(tag, Secret) for tag in made.tags)
    assert isinstance(made.either, Secret)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"who": {"nmae": "Ada"}}, "steps[0].input.who.nmae in step 'a': unknown field 'nmae'; did you mean 'name'?"),
        ({"who": {"nmae": "Ada"}}, "steps[0].input.who in step 'a': 'name' is required"),
        ({"who": {"name": "Ada", "key": "k"}}, "steps[0].input.who.key in step 'a': unknown field 'key'"),
        ({"people": [{"name": 5}]}, "steps[0].input.people[0].name in step 'a': 5 came, expected text"),
        ({"times": 6}, "steps[0].input.times in step 'a': 6 came, expected at most 5"),
        ({"color": "rde"}, '"rde" (text) came, expected "blue" or "red"; did you mean \'red\'?'),
        ({"reach": {"adress": "x"}}, "steps[0].input.reach.adress in step 'a': unknown field 'adress'"),
        ({"tree": {"value": 1, "children": [{}]}}, "steps[0].input.tree.children[0] in step 'a': 'value' is required"),
        ({"pair": [1]}, "steps[0].input.pair in step 'a': a list with 1 entry came, expected at least 2 entries"),
    ],
)
def test_a_document_is_checked_against_a_derived_schema(wrong: dict[str, Any], said: str) -> None:
    document = {"steps": [{"stepId": "a", "stepType": "test.everything", "input": {**SMALLEST, **wrong}}]}
    with pytest.raises(WorkflowInvalid) as invalid:
        load(document, Registry([everything]))
    assert said in str(invalid.value)


def test_templates_stand_for_any_value_and_are_checked_once_they_have_one() -> None:
    given = {
        **SMALLEST,
        "who": {"name": "<< initial.name >>"},
        "reach": "<< initial.reach >>",
        "at": "<< initial.at >>",
    }
    document = {"steps": [{"stepId": "a", "stepType": "test.everything", "input": given}]}
    initial = {"name": "Ada", "reach": {"address": "x"}, "at": "2026-01-31T09:00:00Z"}
    assert run_workflow(document, initial, steps=[everything]).steps["a"]["output"]["name"] == "Ada"
    for wrong, said in (
        ({"name": 5}, "steps[0].input.who.name: 5 came, expected text"),
        ({"reach": {}}, "steps[0].input.reach: 'address' is required"),
        ({"at": "noon"}, 'input.at: "noon" came: invalid RFC3339 encoded datetime'),
        ({"at": "2026-01-31T09:00:00"}, 'input.at: "2026-01-31T09:00:00" came: '),
    ):
        error = run_workflow(document, {**initial, **wrong}, steps=[everything]).error
        assert error is not None
        assert error["code"] == "invalid_input"
        assert said in error["message"]


def test_what_a_type_itself_refuses_is_an_invalid_input_with_its_place() -> None:
    @dataclass
    class Span:
        low: int
        high: int

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError(f"low is {self.low}, and above high")

    @dataclass
    class Spans:
        spans: dict[str, list[Span]]

    @step_type("test.spans")
    def body(call: StepCall, input: Spans) -> JsonObject:
        return {}

    with pytest.raises(StepFailed) as failed:
        run_step(body, {"spans": {"first one": [{"low": 1, "high": 2}, {"low": 3, "high": 2}]}})
    assert failed.value.code == "invalid_input"
    assert not failed.value.retryable
    assert failed.value.message == 'input.spans["first one"][1]: low is 3, and above high'


def test_a_refused_secret_is_not_told() -> None:
    with pytest.raises(StepFailed) as failed:
        run_step(everything, {**SMALLEST, "at": Secret("sesame")})
    assert failed.value.message == "input.at: *** came: it is no datetime"


@pytest.mark.parametrize("name", ["class", "x-api-key", "self", "call", "input", "", "a.b", "def"])
def test_any_key_is_a_legal_name_in_a_plain_input(name: str) -> None:
    def body(call: StepCall, input: dict[str, Any]) -> dict[str, Any]:
        return input

    assert declare(body).schema == {"type": "object"}
    assert run_step(body, {name: 1}).output == {name: 1}


def test_any_key_is_a_legal_name_of_a_field() -> None:
    names = ("class", "x-api-key", "self", "a.b", "")
    fields = [(f"field_{at}", int, field(metadata={"name": name})) for at, name in enumerate(names)]
    odd = dataclasses.make_dataclass("Odd", fields)

    def body(call: StepCall, input: Any) -> dict[str, Any]:
        return {"back": input}

    body.__annotations__["input"] = odd
    given = {name: at for at, name in enumerate(names)}
    body.__annotations__["return"] = dataclasses.make_dataclass("Back", [("back", odd)])
    assert run_step(body, given).output == {"back": given}


class Given(TypedDict):
    """A typed dict."""

    who: Person
    times: NotRequired[int]


@dataclass
class Result:
    """What came of it."""

    at: datetime
    people: Sequence[Person]
    color: Color = Color.BLUE


def test_a_typed_dict_and_a_result_with_a_type_of_its_own() -> None:
    @step_type("test.typed")
    def typed(call: StepCall, input: Given) -> Result | Outcome:
        assert input.get("times", 1) == 1
        return Result(datetime(2026, 1, 1, tzinfo=UTC), [input["who"]])

    output: Any = typed.output_schema
    assert typed.schema["required"] == ["who"]
    assert output["required"] == ["at", "people"]
    assert output["properties"]["color"]["default"] == "blue"
    given = run_step(typed, {"who": {"name": "Ada"}}).output
    assert given == {"at": "2026-01-01T00:00:00Z", "people": [{"name": "Ada", "x-api-key": "k"}], "color": "blue"}


def test_an_outcome_may_carry_a_result_and_a_secret_in_it_stays_one() -> None:
    @step_type("test.outcome")
    def outcome(call: StepCall, input: dict[str, Any]) -> Mail | Outcome:
        address = str(input["address"]) if "plain" in input else input["address"]
        made: Any = Mail(address)
        return Outcome(made, warnings=["careful"])

    result = run_step(outcome, {"address": Secret("sesame")})
    assert result.output == {"address": "sesame"}
    assert isinstance(result.output["address"], Secret)
    assert result.outcome.warnings == ("careful",)


def test_schemas_that_are_given_stand_beside_a_dataclass() -> None:
    schema = {"type": "object", "properties": {"address": {"type": "string", "pattern": "@"}}, "required": ["address"]}

    @step_type("test.given", schema=schema, output={"type": "object"}, example={"address": "a@b"})
    def given(call: StepCall, input: Mail) -> Mail:
        return input

    assert given.schema is schema
    assert run_step(given, {"address": "a@b"}).output == {"address": "a@b"}
    with pytest.raises(StepFailed, match="matches"):
        run_step(given, {"address": "ab"})


def test_the_engine_keeps_child_lists_and_conditions_to_itself() -> None:
    @dataclass
    class Times:
        times: int

    @step_type("test.container", branches=("steps",), conditions=("while",))
    def container(call: StepCall, input: Times) -> JsonObject:
        for _ in range(input.times):
            call.run_children()
        return {}

    child = {"stepId": "b", "stepType": "core.log", "input": {"message": "again"}}
    step = {"stepId": "a", "stepType": "test.container", "input": {"times": 2, "while": True, "steps": [child]}}
    result = run_workflow({"steps": [step]}, steps=[container])
    assert [line.message for line in result.logs if line.level == "info"] == ["again", "again"]
