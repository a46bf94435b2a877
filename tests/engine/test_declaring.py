"""A step type is declared by a function and its types: schemas, examples and conversion follow from them, and a wrong
declaration says what is wrong."""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NewType, NotRequired, Optional, TypedDict, cast

import jsonschema
import pytest
from msgspec import Meta

from flo.engine.checking.load import load
from flo.engine.errors import FloError, StepFailed, WorkflowInvalid
from flo.engine.registry import Registry
from flo.engine.secrecy import Secret
from flo.engine.step import Function, Outcome, StepCall, StepType, step_type
from flo.engine.values import Json, JsonObject
from flo.testing import run_step, run_workflow


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


Cents = NewType("Cents", int)


@dataclass(frozen=True)
class Person:
    """Somebody."""

    name: Annotated[str, Meta(min_length=2)]
    """What they are
    called."""

    key: str = field(default="k", metadata={"name": "x-api-key", "description": "How they come in."})


@dataclass
class Mail:
    address: str


@dataclass
class Phone:
    number: int


@dataclass
class Tree:
    value: int
    children: list[Tree] = field(default_factory=list)


@dataclass
class Everything:
    """All there is.

    And more.
    """

    who: Person
    reach: Mail | Phone
    at: datetime
    on: date | None = None
    lasting: timedelta | None = None
    price: Decimal = Decimal("1.5")
    cents: Cents = Cents(5)
    times: Annotated[int, Meta(ge=1, le=5)] = 1
    """How often."""
    color: Color = Color.RED
    mode: Literal["fast", "slow"] | None = None
    people: Annotated[list[Person], Meta(min_length=1)] | None = None
    scores: dict[str, float] = field(default_factory=dict)
    pair: tuple[int, str] = (1, "a")
    tags: set[str] = field(default_factory=set)
    anything: Json = None
    object: JsonObject = field(default_factory=dict)
    tree: Optional[Tree] = None  # noqa: UP045  # what older code says
    either: int | str | None = None


@step_type("test.everything")
def everything(call: StepCall, input: Everything) -> dict[str, Any]:
    """Take all there is."""
    return {"repr": repr(input), "name": input.who.name}


SMALLEST = {"who": {"name": "Ada"}, "reach": {"number": 1}, "at": "2026-01-31T09:00:00Z"}


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


def declare(function: Function, name: Any = "test.one", **settings: Any) -> StepType:
    return step_type(name, **settings)(function)


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


@pytest.mark.parametrize(
    "schema",
    [
        everything.schema,
        {"type": "object", "properties": {"a": {"type": "array", "minItems": 2}}, "required": ["a"]},
        {"type": "object", "properties": {"n": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}},
         "required": ["n"]},
        {"type": "object", "properties": {"n": {"type": "integer", "minimum": 7, "multipleOf": 5}}, "required": ["n"]},
        {"type": "object", "properties": {"t": {"minLength": 40}, "u": {"maxLength": 1, "type": "string"}},
         "required": ["t", "u"]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object", "required": ["x"], "properties": {"x": {"const": 5}}}}},
        {"type": "object", "minProperties": 1, "properties": {"a": {"oneOf": [{"type": "null"}, {"enum": ["z"]}]}}},
    ],
)  # fmt: skip
def test_an_example_is_made_up_that_fits_and_is_always_the_same(schema: Any) -> None:
    def body(call: StepCall, input: JsonObject) -> JsonObject:
        return {}

    made = declare(body, schema=schema).example
    jsonschema.Draft202012Validator(schema).validate(made)
    assert made == declare(body, schema=schema).example


def test_the_example_has_what_is_required_and_no_more() -> None:
    assert everything.example == {
        "who": {"name": "name"}, "reach": {"address": "address"}, "at": "2026-01-31T09:00:00Z",
    }  # fmt: skip


def test_every_documented_type_can_be_required() -> None:
    @dataclass
    class Bounded:
        naive: Annotated[datetime, Meta(tz=False)]
        perhaps: Annotated[datetime, Meta(tz=False)] | None
        clock: Annotated[time, Meta(tz=False)]
        zoned: Annotated[time, Meta(tz=True)]
        limits: Annotated[dict[str, int], Meta(min_length=2)]
        anything: Annotated[dict[str, Any], Meta(min_length=1)]
        choices: Annotated[dict[Literal["a", "b"], int], Meta(min_length=2)]
        key: Annotated[bytes, Meta(min_length=10)]
        short: Annotated[bytes, Meta(max_length=3)]

    def body(call: StepCall, input: Bounded) -> JsonObject:
        return {"naive": input.naive.tzinfo is None, "clock": input.clock.tzinfo is None, "key": len(input.key)}

    declared = step_type("test.bounded")(body)
    jsonschema.Draft202012Validator(declared.schema).validate(declared.example)
    assert run_step(declared, declared.example).output == {"naive": True, "clock": True, "key": 12}
    assert len(cast(Any, declared.example["limits"])) == 2


def test_an_example_that_cannot_be_long_enough_is_asked_for() -> None:
    @dataclass
    class Impossible:
        choices: Annotated[dict[Literal["a"], int], Meta(min_length=2)]

    def body(call: StepCall, input: Impossible) -> JsonObject:
        return {}

    with pytest.raises(FloError, match=r"an object of 1 came, expected at least 2"):
        step_type("test.impossible")(body)


def test_an_example_may_hold_templates() -> None:
    def body(call: StepCall, input: Phone) -> JsonObject:
        return {}

    assert declare(body, example={"number": "<< initial.number >>"}).example["number"] == "<< initial.number >>"


async def asynchronous(call: StepCall, input: JsonObject) -> JsonObject:
    return {}


async def streaming(call: StepCall, input: JsonObject) -> AsyncIterator[JsonObject]:
    yield {}


def generating(call: StepCall, input: JsonObject) -> Iterator[JsonObject]:
    yield {}


def alone(call: StepCall) -> JsonObject:
    return {}


def crowded(call: StepCall, input: JsonObject, more: int) -> JsonObject:
    return {}


def gives_text(call: StepCall, input: JsonObject) -> str:
    return ""


def gives_nothing(call: StepCall, input: JsonObject) -> None: ...


def takes_number(call: StepCall, input: int) -> JsonObject:
    return {}


def takes_unknown(call: StepCall, input: Nowhere) -> JsonObject:  # type: ignore[name-defined]  # noqa: F821
    return {}


@dataclass
class Unfit:
    number: complex


def takes_unfit(call: StepCall, input: Unfit) -> JsonObject:
    return {}


@dataclass
class Keyed:
    held: dict[int, str]


def takes_keyed(call: StepCall, input: Keyed) -> JsonObject:
    return {}


def plain(call: StepCall, input: JsonObject) -> JsonObject:
    return {}


@pytest.mark.parametrize(
    ("function", "settings", "said"),
    [
        (plain, {"name": "greet"}, "'greet' is no name for a step type; write category.name"),
        (plain, {"name": plain}, 'write @step_type("category.name")'),
        (asynchronous, {}, "it is async: a step type is a plain function"),
        (streaming, {}, "it is async"),
        (generating, {}, "it is a generator: a step type is a plain function that returns its output"),
        (alone, {}, "a step type is a function of two parameters: call, and input (too many positional arguments)"),
        (crowded, {}, "(missing a required argument: 'more')"),
        (gives_text, {}, "it returns str: a step gives an object"),
        (gives_nothing, {}, "it returns None: a step gives an object"),
        (takes_number, {}, "the input cannot be int: it is a dict, a dataclass or a TypedDict"),
        (takes_unknown, {}, "the type 'Nowhere' of its input cannot be found when it is declared"),
        (takes_unfit, {}, "the field 'number' of Unfit has the type complex, which JSON cannot give"),
        (takes_keyed, {}, "the field 'held' of Keyed has keys of the type int: in JSON keys are text"),
        (inspect.unwrap(everything.body), {"schema": {"type": "objekt"}}, "the schema is none: type: 'objekt'"),
        (plain, {"schema": {"type": "object", "required": ["a"]}, "example": {}}, "'a' is a required property"),
        (plain, {"schema": {"properties": {"a": {"pattern": "^[xyz]{3}$"}}, "required": ["a"]}}, "give one, as"),
        (plain, {"isolated": True, "branches": ("steps",)}, "runs in a process of its own: no children"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_says_what_is_wrong(function: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(FloError) as refused:
        declare(function, **settings)
    assert said in str(refused.value)


def test_the_decorator_alone_is_refused() -> None:
    with pytest.raises(FloError, match=r"^write @step_type\(\"category\.name\"\)"):

        @step_type  # type: ignore[arg-type]
        def body(call: StepCall, input: JsonObject) -> JsonObject:
            return {}


def test_a_required_field_that_is_never_given_is_refused() -> None:
    @dataclass
    class Steps:
        steps: list[Any]

    with pytest.raises(FloError, match="the field 'steps' is never given to the function"):

        @step_type("test.steps", branches=("steps",))
        def body(call: StepCall, input: Steps) -> JsonObject:
            return {}
