"""What a Python type says of JSON: the JSON Schema of its values, and how a JSON value becomes one of them."""

from __future__ import annotations

import dataclasses
import functools
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence, Set
from datetime import datetime, time
from typing import Annotated, Any, Final, ForwardRef, NotRequired, Required, get_args, get_origin

import msgspec

from flo.engine.conversions import (
    Convert,
    Field,
    as_json,
    json_name,
    leaf_of,
    list_of,
    mapping_of,
    object_of,
    one_of,
    sized,
    tuple_of,
)
from flo.engine.errors import FloError
from flo.engine.field_docs import described_fields, described_type
from flo.engine.frozen import frozen
from flo.engine.values import Json, JsonObject, kind_of

_LISTS: Final[Mapping[Any, Callable[[Iterable[Any]], Any]]] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, Sequence: list, MutableSequence: list, Collection: list,
    Iterable: list, Set: frozenset,
}  # fmt: skip
_OBJECTS: Final = (dict, Mapping, MutableMapping)
_USUAL: Final[Mapping[Any, Any]] = {
    datetime: Annotated[datetime, msgspec.Meta(tz=True)],  # an instant: without a zone it is none
    time: Annotated[time, msgspec.Meta(examples=["09:00:00"])],
}
"""What a type means here unless more is said of it."""
_NO_ZONE: Final = msgspec.Meta(examples=["2026-01-31T09:00:00"])
"""Of a date and a time without a zone msgspec says only that they are text."""
_EVERYTHING: Final = (type(None), bool, int, float, str)


@frozen
class Shape:
    """A type: ``convert`` takes a JSON value and its place, and raises ``Unfit``. Marks of secrets stay."""

    schema: JsonObject
    convert: Convert


def shape_of(annotation: Any, names: Mapping[str, Any], identity: str) -> Shape:
    """Read a type. ``names`` are those that its annotations may use besides their modules' own; ``identity`` is the
    ``$id`` of a schema that refers to parts of itself. Raises ``FloError`` for a type that JSON cannot give."""
    reader = _Reader(names)
    shape = reader.read(annotation, "it")
    if not reader.definitions:
        return shape
    schema = shape.schema
    if "$ref" in schema:  # the type itself is one of those that nest: its fields stand on top
        schema = reader.definitions[str(schema["$ref"]).rpartition("/")[2]]
    return Shape({"$id": identity, **schema, "$defs": reader.definitions}, shape.convert)


def is_structure(annotation: Any) -> bool:
    """Say whether a type is a dataclass or a ``TypedDict``: an object with fields of its own."""
    return isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or typing.is_typeddict(annotation))


class _Reader:
    """Reads one type and those in it. ``definitions`` takes those that nest in themselves."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._known: dict[type, Shape] = {}
        self._open: dict[type, str] = {}
        self.definitions: dict[str, JsonObject] = {}

    def read(self, annotation: Any, what: str) -> Shape:
        """Read a type; ``what`` has it."""
        annotation, notes = _bare(annotation)
        if isinstance(annotation, ForwardRef | str):
            raise FloError(f"{what} has the type {_name_of(annotation)}, which cannot be found from its module")
        if _is_any(annotation):
            shape = Shape({}, lambda value, place: value)
        elif is_structure(annotation):
            shape = self._structure(annotation)
        elif _is_union(annotation):
            return self._union(annotation, notes, what)
        elif (origin := get_origin(annotation) or annotation) in _LISTS:
            shape = self._list(origin, get_args(annotation), what)
        elif origin in _OBJECTS:
            shape = self._object(get_args(annotation), what)
        elif isinstance(origin, type) and dataclasses.is_dataclass(origin):
            raise FloError(f"{what} has the type {_name_of(annotation)}: dataclasses with parameters are not supported")
        else:
            return _leaf(annotation, notes, what, _name_of(annotation))
        return _with_notes(shape, notes) if notes else shape

    def _structure(self, structure: Any) -> Shape:
        """Read a dataclass or a ``TypedDict``, once; one that is met inside itself is referred to."""
        if structure in self._known:
            return self._known[structure]
        if structure in self._open:
            name = self._open[structure] = self._open[structure] or self._free_name(structure)
            return Shape({"$ref": f"#/$defs/{name}"}, lambda value, place: self._known[structure].convert(value, place))
        self._open[structure] = ""
        typed = typing.is_typeddict(structure)
        fields, schema = self._typed_dict(structure) if typed else self._dataclass(structure)
        shape = Shape(schema, object_of(fields, dict if typed else structure))
        if name := self._open.pop(structure):
            self.definitions[name] = schema
            shape = Shape({"$ref": f"#/$defs/{name}"}, shape.convert)
        self._known[structure] = shape
        return shape

    def _free_name(self, structure: type) -> str:
        taken = {*self.definitions, *self._open.values()}
        name = structure.__name__
        return name if name not in taken else f"{structure.__module__}.{structure.__qualname__}"

    def _dataclass(self, structure: Any) -> tuple[list[Field], JsonObject]:
        hints, said = self._hints(structure), described_fields(structure)
        fields, properties = [], {}
        for field in dataclasses.fields(structure):
            if not field.init:
                continue
            name = json_name(field)
            if name in properties:
                raise FloError(f"{structure.__name__} has two fields called {name!r}")
            shape = self.read(hints[field.name], f"the field {field.name!r} of {structure.__name__}")
            required = field.default is field.default_factory is dataclasses.MISSING
            fields.append(Field(field.name, name, shape.convert, required))
            text = field.metadata.get("description") or said.get(field.name)
            properties[name] = {**shape.schema, **({"description": text} if text else {}), **_default(field)}
        return fields, _closed(structure, fields, properties)

    def _typed_dict(self, structure: Any) -> tuple[list[Field], JsonObject]:
        said = described_fields(structure)
        fields, properties = [], {}
        for name, hint in self._hints(structure).items():
            required = name in structure.__required_keys__
            if get_origin(hint) in (Required, NotRequired):  # text annotations hide it from Python
                required = get_origin(hint) is Required
                (hint,) = get_args(hint)
            shape = self.read(hint, f"the key {name!r} of {structure.__name__}")
            fields.append(Field(name, name, shape.convert, required))
            properties[name] = {**shape.schema, **({"description": said[name]} if name in said else {})}
        return fields, _closed(structure, fields, properties)

    def _hints(self, structure: Any) -> Mapping[str, Any]:
        try:
            return typing.get_type_hints(structure, include_extras=True)
        except NameError:
            try:
                names = {"Json": Any, **self._names}  # a recursive type, which refers to itself by its name
                return typing.get_type_hints(structure, localns=names, include_extras=True)
            except NameError as error:
                message = f"an annotation of {structure.__name__} names {error.name!r}, which its module does not have"
                raise FloError(message) from error

    def _union(self, annotation: Any, notes: Sequence[Any], what: str) -> Shape:
        members = [member for member in get_args(annotation) if member is not type(None)]
        nullable = len(members) < len(get_args(annotation))
        plain = [member for member in members if not _is_container(member)]
        read = [self.read(member, what) for member in members if _is_container(member)]
        if plain:
            usual = [_usual(member, notes) for member in plain]
            joined, name = functools.reduce(operator.or_, usual[1:], usual[0]), " or ".join(map(_name_of, plain))
            read.insert(0, _leaf(joined, notes, what, name))
        schema = read[0].schema if len(read) == 1 else {"anyOf": [shape.schema for shape in read]}
        said = dict.fromkeys(["description"], notes[-1].description) if notes and notes[-1].description else {}
        whole = {**(_or_null(schema) if nullable else schema), **said}
        return Shape(whole, one_of([shape.convert for shape in read], nullable))

    def _list(self, kind: Any, arguments: tuple[Any, ...], what: str) -> Shape:
        if kind is tuple and arguments and arguments[-1] is not Ellipsis:
            parts = [self.read(argument, what) for argument in arguments if argument != ()]
            size: JsonObject = {"minItems": len(parts), "maxItems": len(parts)}
            schema: JsonObject = {
                "type": "array",
                "prefixItems": [part.schema for part in parts],
                "items": False,
                **size,
            }
            return Shape(schema, tuple_of([part.convert for part in parts]))
        inner = self.read(arguments[0] if arguments else Any, f"an entry of {what}")
        schema = {"type": "array", **({"items": inner.schema} if inner.schema else {})}
        return Shape(schema, list_of(inner.convert, _LISTS[kind]))

    def _object(self, arguments: tuple[Any, ...], what: str) -> Shape:
        key, held = arguments or (str, Any)
        keys, values = self.read(key, f"a key of {what}"), self.read(held, f"a value of {what}")
        if key is not str and keys.schema.get("type") != "string" and not _are_texts(keys.schema.get("enum")):
            raise FloError(f"{what} has keys of the type {_name_of(key)}: in JSON keys are text")
        schema: dict[str, Json] = {"type": "object"}
        if key is not str:
            schema["propertyNames"] = keys.schema
        if values.schema:
            schema["additionalProperties"] = values.schema
        return Shape(schema, mapping_of(keys.convert, values.convert))


def _bare(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without what is around it, and what was noted there."""
    notes: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            notes = (*more, *notes)
        elif hasattr(annotation, "__supertype__"):  # NewType
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, tuple(note for note in notes if isinstance(note, msgspec.Meta))


def _usual(annotation: Any, notes: Sequence[Any]) -> Any:
    bare, own = _bare(annotation)
    zones = [note.tz for note in (*notes, *own) if note.tz is not None]
    if not zones:
        return _USUAL.get(annotation, annotation)
    return Annotated[datetime, _NO_ZONE, *own] if bare is datetime and not any(zones) else annotation


def _leaf(annotation: Any, notes: Sequence[Any], what: str, name: str) -> Shape:
    """A type, called ``name``, that msgspec knows all about, and that holds no other one of ours."""
    annotation = _usual(annotation, notes)
    annotation = Annotated[annotation, *notes] if notes else annotation
    try:
        schema = msgspec.json.schema(annotation)
        msgspec.json.Decoder(annotation)
    except (TypeError, RecursionError) as error:
        reason = str(error).rpartition("\n")[2]
        raise FloError(f"{what} has the type {name}, which JSON cannot give: {reason}") from error
    definitions = schema.pop("$defs", {})
    try:
        whole = _inlined(schema, definitions)
    except RecursionError:
        raise FloError(f"{what} has the type {name}, which nests in itself: use dataclasses") from None

    return Shape(_compact(whole), leaf_of(annotation, name))


def _inlined(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema with the parts in it that it refers to."""
    if isinstance(schema, list):
        return [_inlined(held, definitions) for held in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _inlined(held, definitions) for key, held in schema.items() if key not in ("$ref", "title")}
    if "$ref" in schema:
        found = {**_inlined(definitions[schema["$ref"].rpartition("/")[2]], definitions), **found}
    return found


def _compact(schema: JsonObject) -> JsonObject:
    """The same schema, a choice of nothing but kinds written as one."""
    choices: Any = schema.get("anyOf")
    if choices and all(choice.keys() == {"type"} and isinstance(choice["type"], str) for choice in choices):
        rest = {key: held for key, held in schema.items() if key != "anyOf"}
        return {"type": [choice["type"] for choice in choices], **rest}
    return schema


def _or_null(schema: JsonObject) -> JsonObject:
    """A schema that takes null, too."""
    if not schema:
        return schema
    match schema:
        case {"enum": list(values)} if schema.keys() <= {"enum", "description"}:
            return {**schema, "enum": [*values, None]}
        case {"type": str(kind)} if not schema.keys() & {"enum", "const", "$ref"}:
            return {**schema, "type": [kind, "null"]}
        case {"type": list(kinds)}:
            return {**schema, "type": [*kinds, "null"]}
        case {"anyOf": list(choices)}:
            return {**schema, "anyOf": [*choices, {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}


def _with_notes(shape: Shape, notes: Sequence[Any]) -> Shape:
    """A list or an object, and what was noted about it."""
    stand_in: Any = {"array": list, "object": dict}.get(str(shape.schema.get("type")), Any)
    found = msgspec.json.schema(Annotated[stand_in, *notes])
    schema = {**shape.schema, **{key: held for key, held in found.items() if key != "type"}}
    shortest = max((note.min_length for note in notes if note.min_length is not None), default=0)
    longest = min((note.max_length for note in notes if note.max_length is not None), default=None)
    bounded = shortest > 0 or longest is not None
    return Shape(schema, sized(shape.convert, shortest, longest) if bounded else shape.convert)


def _closed(structure: Any, fields: Sequence[Field], properties: JsonObject) -> JsonObject:
    """The schema of an object that has these fields and no other."""
    said = described_type(structure)
    required = [field.json for field in fields if field.required]
    return {
        "type": "object",
        **({"description": said} if said else {}),
        "properties": properties,
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _default(field: dataclasses.Field[Any]) -> JsonObject:
    if field.default is not dataclasses.MISSING:
        value = as_json(field.default)
        return {"default": value} if kind_of(value)[:8] != "a Python" else {}
    empty: Any = {list: [], dict: {}}
    return {"default": empty[field.default_factory]} if field.default_factory in (list, dict) else {}


def _is_any(annotation: Any) -> bool:
    """Any JSON at all: unsaid, or a union of everything that there is."""
    if annotation in (Any, object):
        return True
    members = get_args(annotation) if _is_union(annotation) else ()
    kinds = [get_origin(member) or member for member in members]
    held = any(kind in _LISTS for kind in kinds) and any(kind in _OBJECTS for kind in kinds)
    return held and all(kind in kinds for kind in _EVERYTHING)


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (typing.Union, types.UnionType)


def _is_container(annotation: Any) -> bool:
    bare, _ = _bare(annotation)
    return is_structure(bare) or (get_origin(bare) or bare) in (*_LISTS, *_OBJECTS) or _is_any(bare)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _name_of(annotation: Any) -> str:
    if isinstance(annotation, ForwardRef):
        return repr(annotation.__forward_arg__)
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
