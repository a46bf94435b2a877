"""The second stage: a step's input against its type's schema, before its templates have a value and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flo.engine.checking.fitting import misfits
from flo.engine.checking.openness import Holder, Marks, Open, about_presence, opened
from flo.engine.checking.problems import Report
from flo.engine.checking.tree import Node, at_place, expand, templated
from flo.engine.checking.violations import came
from flo.engine.errors import ExpressionInvalid, StepFailed
from flo.engine.language.marks import has_marks, scan
from flo.engine.language.workflow import Recheck
from flo.engine.values import Json, JsonObject, LazyList, Place, place_text, place_under

_SIMPLE: Final = frozenset(
    {
        "type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
        "description", "title", "default", "examples", "format",
    }
)  # fmt: skip
_COMBINING: Final = frozenset({"anyOf", "oneOf", "allOf", "not"})
_REACHING: Final = frozenset(
    {"$ref", "$dynamicRef", "if", "patternProperties", "propertyNames", "dependentSchemas", "prefixItems", "contains",
     "unevaluatedProperties", "unevaluatedItems"}
)  # fmt: skip
"""Keywords that may say something about what is inside a value, besides ``properties`` and ``items``."""
_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def check_input(node: Node, label: str, report: Report) -> Recheck:
    """Check what is known of a step's input; gives what checks the rest when it is resolved. ``label`` is the step's
    place as people read it."""
    found: dict[Place, Holder] = {}
    holes = _holes(node, report)
    shape = opened(_filled(node.input, holes) if holes else node.input, marks_of, found)
    for violation in misfits(node.type.schema, shape):
        report.error((*node.place, "input", *violation.place), violation.message)
    asked = [place for place, held in found.items() if held.asked]
    return _recheck(node.type.schema, holes, asked, f"{label}.input") if asked else _nothing_open


def _nothing_open(value: JsonObject) -> None:
    """Nothing in the input was open."""


def _holes(node: Node, report: Report) -> dict[Place, Any]:
    """Where child lists, documents, conditions and rules stand in the input, and what stands in for them when it is
    checked."""
    holes: dict[Place, Any] = {}
    for branch in node.type.branches:
        for text, place in expand(branch, node.input):
            held = at_place(node.input, place)
            holes[place] = [Open() for _ in held] if isinstance(held, list) else []
            if text not in node.branches and not _is_template(held):
                report.error((*node.place, "input", *place), f"{came(held)} came, expected a list of steps")
    for field in node.type.documents:
        document = node.input.get(field)
        if _is_template(document):
            what = "a workflow is written out here, or called by its name; a template cannot give it"
            report.error((*node.place, "input", field), what)
        if isinstance(document, Mapping) or _is_template(document):
            holes[(field,)] = {}
    for condition in node.type.conditions:
        holes |= {place: Open() for _, place in expand(condition, node.input)}
    holes |= {place: Open() for _, _, place in rule_places(node)}
    _check_written_out(node, holes, report)
    return holes


def rule_places(node: Node) -> list[tuple[str, str, Place]]:
    """The rules of a step's input: the pattern of each, its spelling and its place. Where several patterns fit, the
    innermost does: with ``by`` and ``by[].value``, ``by`` is a rule, or a list of objects that hold one each."""
    found = [(pattern, text, place) for pattern in node.type.rules for text, place in expand(pattern, node.input)]
    around = {place[:length] for _, _, place in found for length in range(len(place))}
    return [each for each in found if each[2] not in around]


def _check_written_out(node: Node, holes: Mapping[Place, Any], report: Report) -> None:
    """Refuse a template where conditions or rules stand in what it would give: they are compiled, not resolved."""
    told = {place for branch in node.type.branches for place in templated(branch, node.input)}
    for pattern in (*node.type.conditions, *node.type.rules):
        for place in templated(pattern, node.input):
            if place not in holes and place not in told:
                told.add(place)
                what = f"{pattern!r} is written out in the document; a template cannot give it"
                report.error((*node.place, "input", *place), what)


def _filled(value: Any, holes: Mapping[Place, Any], place: Place = ()) -> Any:
    """A copy of ``value`` with what stands in for its holes, also where ``value`` does not have them."""
    if place in holes:
        return holes[place]
    if isinstance(value, Mapping):
        keys = {hole[len(place)]: None for hole in holes if hole[: len(place)] == place and len(hole) > len(place)}
        return {key: _filled(value.get(key), holes, (*place, key)) for key in {**value, **keys}}
    if isinstance(value, Sequence) and not isinstance(value, str | LazyList):
        return [_filled(held, holes, (*place, at)) for at, held in enumerate(value)]
    return value


def _is_template(value: Json) -> bool:
    return isinstance(value, str) and has_marks(value)


def marks_of(text: str) -> Marks:
    """What templates a text holds."""
    if not has_marks(text):
        return "none"
    try:
        pieces = scan(text)
    except ExpressionInvalid:
        return "lone"  # reported when it is compiled; nothing is known of its value
    return "lone" if len(pieces) == 1 and pieces[0].kind == "expression" else "text"


def _recheck(schema: JsonObject, holes: Mapping[Place, Any], asked: Sequence[Place], label: str) -> Recheck:
    """Check the values of open places against their own part of the schema where that is simple and tells everything;
    else, and to say what is wrong, the whole input."""
    parts = [(place, _fits(_part(schema, place))) for place in asked]
    quick = [(place, fits) for place, fits in parts if fits is not None]
    told_apart = len(quick) == len(parts)

    def recheck(value: JsonObject) -> None:
        if told_apart and all(fits(at_place(value, place)) for place, fits in quick):
            return
        found = misfits(schema, _filled(value, holes) if holes else value)
        if found:
            said = [f"{place_under(label, place_text(each.place))}: {each.message}" for each in found]
            raise StepFailed("; ".join(said), code="invalid_input", retryable=False)

    return recheck


def _part(schema: Json, place: Place) -> JsonObject | None:
    """The part of a schema that says all there is to say about a place; None where several parts may."""
    for key in place:
        if not isinstance(schema, Mapping) or schema.keys() & _REACHING:
            return None
        if not about_presence({word: schema[word] for word in _COMBINING & schema.keys()}):
            return None
        if isinstance(key, str):
            properties = schema.get("properties")
            schema = properties.get(key) if isinstance(properties, Mapping) else None
        else:
            schema = schema.get("items")
    return schema if isinstance(schema, Mapping) else None


def _fits(schema: JsonObject | None) -> Callable[[Json], bool] | None:
    """What tells quickly that a value fits; None where the schema asks for more than a kind, bounds and choices. Values
    of unusual types, such as lists that are read from the store, are left to the whole schema."""
    if schema is None or not schema.keys() <= _SIMPLE:
        return None
    named, choices = schema.get("type"), schema.get("enum")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else list(_PYTHON)
    kinds = {kind for name in names for kind in _PYTHON.get(str(name), ())}
    if choices is not None and not (isinstance(choices, list) and all(isinstance(choice, str) for choice in choices)):
        return None
    bounds: Any = schema
    low, high = bounds.get("minimum"), bounds.get("maximum")
    above, below = bounds.get("exclusiveMinimum"), bounds.get("exclusiveMaximum")
    short, long = bounds.get("minLength"), bounds.get("maxLength")

    def fits(value: Any) -> bool:
        kind = type(value)
        if kind not in kinds:
            return False
        if choices is not None and value not in choices:
            return False
        if kind is str:
            return (short is None or len(value) >= short) and (long is None or len(value) <= long)
        if kind is int or kind is float:
            within = (low is None or value >= low) and (high is None or value <= high)
            return within and (above is None or value > above) and (below is None or value < below)
        return True

    return fits
