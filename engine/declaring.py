"""A function as a step type: what its signature says of the input and the output, and what is wrong with it."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from flo.engine.errors import FloError, StepFailed
from flo.engine.frozen import frozen
from flo.engine.values import Json, JsonObject, place_text

ANY_OBJECT: Final[JsonObject] = {"type": "object"}

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9][A-Za-z0-9_-]*)+")
_NO_OBJECTS: Final = (None, type(None), bool, int, float, str, bytes, list, tuple, set, frozenset)
_OWN: Final = "flo.steps."


@frozen
class Given:
    """What the decorator was told besides the function; None where that is to be found out. ``children`` are the fields
    of the input that the engine keeps to itself, with their schemas; ``names`` what annotations may name besides what
    the function's module has; ``outcome`` is a class that a function may return instead of an object."""

    schema: JsonObject | None
    output: JsonObject | None
    example: JsonObject | None
    children: Mapping[str, JsonObject]
    names: Mapping[str, Any]
    outcome: type


@frozen
class Declaration:
    """Both schemas, an example, and what makes the function's input of a JSON object, and JSON of what it gives: None
    where nothing has to be done."""

    schema: JsonObject
    output: JsonObject
    example: JsonObject
    take: Callable[[JsonObject], Any] | None
    give: Callable[[Any], Any] | None


def check_call(name: object, *, alone: bool, with_others: bool) -> None:
    """Raise ``FloError`` for what is no name of a step type (the function itself, where the decorator has no brackets),
    and for one that runs ``alone`` in a process and has something that needs the engine's."""
    if not isinstance(name, str):
        raise FloError('write @step_type("category.name"): the decorator takes the name of the step type')
    if not _NAME.fullmatch(name.replace("__", ".")):
        raise FloError(f"{name!r} is no name for a step type; write category.name, for instance 'acme.greet'")
    if alone and with_others:
        what = "an isolated one runs in a process of its own: no children, conditions, rules, documents, transaction"
        raise FloError(f"step type {name!r}: {what}")


def declared(name: str, function: Callable[..., Any], given: Given) -> Declaration:
    """Read a function. Raises ``FloError`` that says what is wrong with the declaration."""
    try:
        return _read(name, function, given)
    except FloError as error:
        raise FloError(f"step type {name!r}: {error}") from error


def _read(name: str, function: Callable[..., Any], given: Given) -> Declaration:
    taken = _input_annotation(function, given)
    schema, take = ANY_OBJECT, None
    if taken is not None:
        schema, take = _structured_input(taken, name, given)
    schema = schema if given.schema is None else given.schema
    output, give = ANY_OBJECT, None
    if (gives := _output_annotation(function, given)) is not None:
        from flo.engine.conversions import as_json
        from flo.engine.shapes import shape_of

        output, give = shape_of(gives, given.names, f"urn:flo:step-type:{name}:output").schema, as_json
    example = given.example
    if not function.__module__.startswith(_OWN):  # those are checked when flo itself is tested
        example = _example(name, schema, example, take, written=given.schema is not None)
    assert example is not None
    return Declaration(schema, output if given.output is None else given.output, example, take, give)


def _structured_input(annotation: Any, name: str, given: Given) -> tuple[JsonObject, Callable[[JsonObject], Any]]:
    """The schema of an input with a type of its own, and what makes a value of that type."""
    from flo.engine.conversions import Unfit
    from flo.engine.shapes import shape_of

    shape = shape_of(annotation, given.names, f"urn:flo:step-type:{name}:input")

    def take(value: JsonObject) -> Any:
        try:
            return shape.convert(value, ("input",))
        except Unfit as unfit:
            message = f"{place_text(unfit.place)}: {unfit.message}"
            raise StepFailed(message, code="invalid_input", retryable=False) from unfit

    properties: Any = shape.schema.get("properties")
    if properties is None:
        return shape.schema, take
    needed: Any = shape.schema.get("required", ())
    for child in given.children:
        if child in needed and given.schema is None:
            raise FloError(f"the field {child!r} is never given to the function: leave it out, or give it a default")
    children = {child: schema for child, schema in given.children.items() if child not in properties}
    return {**shape.schema, "properties": {**properties, **children}}, take


def _input_annotation(function: Callable[..., Any], given: Given) -> Any:
    """The type of the second parameter, None where any object will do."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise FloError("it is async: a step type is a plain function, which may call asyncio.run itself")
    if inspect.isgeneratorfunction(function):
        raise FloError("it is a generator: a step type is a plain function that returns its output")
    try:
        signature = inspect.signature(function)
        signature.bind(None, None)
    except (TypeError, ValueError) as error:
        what = "a step type is a function of two parameters: call, and input"
        raise FloError(f"{what} ({str(error) or type(error).__name__})") from error
    second = [*signature.parameters.values()][1:2]
    annotation = second[0].annotation if second else inspect.Parameter.empty
    if annotation is inspect.Parameter.empty:
        return None
    found = _evaluated(annotation, function, given, "input", explicit=given.schema is not None)
    if _is_any_object(found):
        return None
    if _has_fields(found) or typing.get_origin(found) in (dict, Mapping):
        return found
    raise FloError(f"the input cannot be {_name_of(found)}: it is a dict, a dataclass or a TypedDict")


def _output_annotation(function: Callable[..., Any], given: Given) -> Any:
    """The type of what the function returns, where it has fields of its own; None where any object will do."""
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    found = _evaluated(annotation, function, given, "output", explicit=given.output is not None)
    members = typing.get_args(found) if isinstance(found, types.UnionType) else (found,)
    if typing.get_origin(found) is typing.Union:
        members = typing.get_args(found)
    members = tuple(member for member in members if member is not given.outcome)
    if wrong := [member for member in members if (typing.get_origin(member) or member) in _NO_OBJECTS]:
        raise FloError(
            f"it returns {_name_of(wrong[0])}: a step gives an object, as a dict, a dataclass or a TypedDict"
        )
    structures = [member for member in members if _has_fields(member)]
    if not structures:
        return None
    return members[0] if len(members) == 1 else typing.Union[members]  # noqa: UP007  # how many there are is not known


def _evaluated(annotation: Any, function: Callable[..., Any], given: Given, what: str, *, explicit: bool) -> Any:
    """An annotation that may be written as text. One that cannot be read says nothing, where a schema says it all."""
    if not isinstance(annotation, str):
        return annotation
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return eval(annotation, namespace, dict(given.names))
    except Exception as error:
        if explicit:
            return Any
        how = f"{type(error).__name__}: {error}"
        raise FloError(f"the type {annotation!r} of its {what} cannot be found when it is declared ({how})") from error


def _is_any_object(annotation: Any) -> bool:
    """As ``shapes.is_any_object``, which is not imported for what most step types have."""
    if annotation in (Any, object, dict, Mapping):
        return True
    if _has_fields(annotation) or typing.get_origin(annotation) not in (dict, Mapping):
        return False
    key, held = typing.get_args(annotation)
    return key is str and held in (Any, object, Json)


def _has_fields(annotation: Any) -> bool:
    """Whether a type is a dataclass or a ``TypedDict``."""
    return isinstance(annotation, type) and (
        hasattr(annotation, "__dataclass_fields__") or typing.is_typeddict(annotation)
    )


def _example(
    name: str,
    schema: JsonObject,
    example: JsonObject | None,
    take: Callable[[JsonObject], Any] | None,
    *,
    written: bool,
) -> JsonObject:
    """The example, checked; one that is made where none was given. ``written`` says that the schema is an author's."""
    from flo.engine.examples import example_of, misfits

    if example is not None:
        if wrong := misfits(schema, example):
            raise FloError(f"its example does not fit its schema: {wrong}")
        return example
    made = example_of(schema, name)
    wrong = misfits(schema, made) if written or take is None else None
    if wrong is None and take is not None:
        wrong = _refused(take, made)
    if wrong or not isinstance(made, Mapping):
        raise FloError(f"no example of its input can be made up: give one, as example={{…}} ({wrong})")
    return made


def _refused(take: Callable[[JsonObject], Any], made: Any) -> str | None:
    try:
        take(made)
    except StepFailed as failed:
        return failed.message
    return None


def _name_of(annotation: Any) -> str:
    if annotation is None or annotation is type(None):
        return "None"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
