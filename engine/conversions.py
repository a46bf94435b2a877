"""How JSON values become values of Python types, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from flo.engine.errors import did_you_mean
from flo.engine.frozen import frozen
from flo.engine.secrecy import HIDDEN, Secret
from flo.engine.values import LazyList, Place, kind_of, place_text, shown

Convert = Callable[[Any, Place], Any]
"""Makes a Python value of a JSON value, which stands at a place. Raises ``Unfit``. Marks of secrets stay."""


class Unfit(Exception):
    """A value is none of the type. ``place`` leads to what is wrong in it."""

    def __init__(self, place: Place, message: str) -> None:
        self.place, self.message = place, message
        super().__init__(f"{place_text(place)}: {message}")


@frozen
class Field:
    """A field of an object. ``name`` is Python's, ``json`` that in JSON."""

    name: str
    json: str
    convert: Convert
    required: bool


def as_json(value: Any) -> Any:
    """What a step type gives as JSON: dataclasses as objects under the names of their fields in JSON, dates and the
    like as text. What JSON cannot hold stays as it is: others refuse it, and say where it stands."""
    if isinstance(value, Enum):
        return as_json(value.value)
    if value is None or isinstance(value, str | bool | int | float | LazyList):
        return value
    if isinstance(value, Mapping):
        return {key: as_json(held) for key, held in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(held) for held in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {json_name(field): as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return value


def json_name(field: dataclasses.Field[Any]) -> str:
    """What a field is called in JSON."""
    return str(field.metadata.get("name", field.name))


def leaf_of(annotation: Any, name: str) -> Convert:
    """A type that msgspec makes, called ``name``."""

    def convert(value: Any, place: Place) -> Any:
        try:
            return msgspec.convert(value, annotation, str_keys=True)
        except msgspec.ValidationError as error:
            secret = isinstance(value, Secret)
            reason = f"it is no {name}" if secret else _lowered(str(error))
            raise Unfit(place, f"{HIDDEN if secret else shown(value)} came: {reason}") from None

    return convert


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")


def object_of(fields: Sequence[Field], make: Callable[..., Any]) -> Convert:
    """An object with these fields and no other; ``make`` takes them by their names."""
    by_name = {field.json: field for field in fields}

    def convert(value: Any, place: Place) -> Any:
        if not isinstance(value, Mapping):
            raise Unfit(place, f"{kind_of(value)} came, expected an object")
        for name in value:
            if name not in by_name:
                hint = did_you_mean(name, [known for known in by_name if known not in value])
                raise Unfit((*place, name), f"unknown field {name!r}{hint}")
        given = {}
        for field in fields:
            if field.json in value:
                given[field.name] = field.convert(value[field.json], (*place, field.json))
            elif field.required:
                raise Unfit(place, f"{field.json!r} is required")
        try:
            return make(**given)
        except (TypeError, ValueError) as error:  # what its own checks say
            raise Unfit(place, str(error) or type(error).__name__) from error

    return convert


def list_of(convert_one: Convert, make: Callable[[Iterable[Any]], Any]) -> Convert:
    """A list; ``make`` takes its entries."""

    def convert(value: Any, place: Place) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise Unfit(place, f"{kind_of(value)} came, expected a list")
        try:
            return make([convert_one(held, (*place, at)) for at, held in enumerate(value)])
        except TypeError as error:  # entries of a set that cannot be in one
            raise Unfit(place, str(error)) from error

    return convert


def tuple_of(converts: Sequence[Convert]) -> Convert:
    """A list with an entry for each of these."""

    def convert(value: Any, place: Place) -> Any:
        if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(converts):
            raise Unfit(place, f"{kind_of(value)} came, expected a list of {len(converts)} entries")
        return tuple(one(held, (*place, at)) for at, (one, held) in enumerate(zip(converts, value, strict=True)))

    return convert


def mapping_of(convert_key: Convert, convert_value: Convert) -> Convert:
    """An object with any keys."""

    def convert(value: Any, place: Place) -> Any:
        if not isinstance(value, Mapping):
            raise Unfit(place, f"{kind_of(value)} came, expected an object")
        inside = {key: (*place, key) for key in value}
        return {convert_key(key, inside[key]): convert_value(held, inside[key]) for key, held in value.items()}

    return convert


def sized(convert: Convert, shortest: int, longest: int | None) -> Convert:
    """A list or an object that has so many entries."""

    def convert_sized(value: Any, place: Place) -> Any:
        made = convert(value, place)
        if len(value) < shortest or (longest is not None and len(value) > longest):
            bounds = f"at least {shortest}" if len(value) < shortest else f"at most {longest}"
            raise Unfit(place, f"{kind_of(value)} of {len(value)} came, expected {bounds}")
        return made

    return convert_sized


def one_of(converts: Sequence[Convert], nullable: bool) -> Convert:
    """The first type that a value fits; what keeps it from fitting the one that it comes nearest to."""

    def convert(value: Any, place: Place) -> Any:
        if value is None and nullable:
            return None
        unfit: list[Unfit] = []
        for one in converts:
            try:
                return one(value, place)
            except Unfit as error:
                unfit.append(error)
        raise max(unfit, key=lambda error: len(error.place))

    return convert
