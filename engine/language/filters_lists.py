"""Filters on lists and objects.

A property that a filter takes is a key or a dotted path (``payload.user.id``). Where Liquid looks through lists inside
the list (``join map where reject has find find_index sum``), so do these; the others keep inner lists as they are. What
makes a list of a list makes null of null, so that a missing list is not mistaken for an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeGuard

from flo.engine.comparison import SortKey, equal, sort_key
from flo.engine.language.bounds import check_elements, joined
from flo.engine.language.filters_numbers import Number, lenient_number, total, whole_number
from flo.engine.language.operators import written
from flo.engine.language.paths import Nowhere, follow
from flo.engine.values import MAX_DEPTH, Json, kind_of, shown


def is_list(value: Json) -> TypeGuard[Sequence[Json]]:
    """Say whether a value is a list, be it one that is read lazily."""
    return isinstance(value, list) or (isinstance(value, Sequence) and not isinstance(value, str))


def elements(value: Json) -> Sequence[Json]:
    """The elements of a list; null has none, any other value is its own only one."""
    if is_list(value):
        return value
    return [] if value is None else [value]


def flat(value: Json) -> list[Json]:
    """The elements of a list and of the lists inside it, in order."""
    found: list[Json] = []
    open_lists: list[Iterator[Json]] = [iter(elements(value))]
    while open_lists:
        for element in open_lists[-1]:
            if is_list(element):
                open_lists.append(iter(element))
                break
            found.append(element)
            if not len(found) % 1024:
                check_elements(len(found))
        else:
            open_lists.pop()
    return found


def property_of(element: Json, name: Json) -> Json:
    """The property of an object by its key or dotted path; null where there is none."""
    if not isinstance(element, Mapping) or not isinstance(name, str):
        return None
    if name in element or "." not in name:
        return element.get(name)
    found: Json = element
    for part in name.split("."):
        index = int(part) if part.isascii() and part.isdecimal() and len(part) < 10 and is_list(found) else part
        step = follow(found, index)
        if isinstance(step, Nowhere):
            return None
        found = step
    return found


def size(value: Json) -> Json:
    """Count the characters of text, the elements of a list or the keys of an object; 0 for anything else."""
    return len(value) if isinstance(value, str | Sequence | Mapping) else 0


def first(value: Json) -> Json:
    """Give the first element of a list, character of text, or key and value of an object; null where there is none."""
    if isinstance(value, Mapping):
        return next(([key, held] for key, held in value.items()), None)
    if isinstance(value, str):
        return value[:1]
    return value[0] if isinstance(value, Sequence) and value else None


def last(value: Json) -> Json:
    """Give the last element of a list or character of text; null where there is none."""
    if isinstance(value, str):
        return value[-1:]
    return value[-1] if isinstance(value, Sequence) and value else None


def join(value: Json, separator: Json = " ") -> Json:
    """Join the elements of a list, and of lists inside it, to text with a separator (a blank) between them."""
    return joined([written(element) for element in flat(value)], written(separator))


def reverse(value: Json) -> Json:
    """Turn a list around; a value that is no list comes back as it is."""
    return list(reversed(elements(value))) if is_list(value) else value


def sort(value: Json, name: Json = None) -> Json:
    """Sort a list, by a property if one is named: numbers, instants, other text; null and missing last, ties in their
    old order."""
    if not is_list(value):
        return value
    return sorted(
        elements(value), key=lambda element: _sort_key(element if name is None else property_of(element, name))
    )


def _sort_key(value: Json) -> tuple[bool, SortKey]:
    return value is None, sort_key(value)


def sort_natural(value: Json, name: Json = None) -> Json:
    """Sort a list as text without regard to case, by a property if one is named; null and missing last."""
    if not is_list(value):
        return value
    return sorted(
        elements(value), key=lambda element: _natural_key(element if name is None else property_of(element, name))
    )


def _natural_key(value: Json) -> tuple[bool, str]:
    return value is None, written(value).casefold()


def uniq(value: Json, name: Json = None) -> Json:
    """Keep the first of equal elements, or of elements with an equal property; a value that is no list comes back as it
    is."""
    if not is_list(value):
        return value
    kept: dict[object, Json] = {}
    for element in elements(value):
        kept.setdefault(_identity(element if name is None else property_of(element, name)), element)
    return list(kept.values())


def _identity(value: Json, depth: int = 0) -> object:
    """A key that two values share exactly when ``comparison.identical`` finds no difference."""
    if value is None or isinstance(value, bool | str):
        return type(value), value
    if isinstance(value, int | float):
        return int, sort_key(value)
    if depth > MAX_DEPTH:
        raise ValueError(f"the value is nested deeper than {MAX_DEPTH}")
    if isinstance(value, Mapping):
        return dict, frozenset((key, _identity(held, depth + 1)) for key, held in value.items())
    return list, tuple(_identity(held, depth + 1) for held in value)


def compact(value: Json, name: Json = None) -> Json:
    """Drop null elements, or elements whose property is null or missing."""
    if value is None:
        return None
    return [
        element for element in elements(value) if (element if name is None else property_of(element, name)) is not None
    ]


def concat(value: Json, other: Json) -> Json:
    """Put the elements of another list after those of this one."""
    if not is_list(other):
        raise ValueError(f"concat takes a list, not {kind_of(other)}")
    return array_concat(value, other)


def array_concat(value: Json, *others: Json) -> Json:
    """Put lists one after the other; a value that is no list counts as a list of one, null as an empty one."""
    lists = [elements(value), *map(elements, others)]
    check_elements(sum(map(len, lists)))
    return [element for part in lists for element in part]


def push(value: Json, element: Json) -> Json:
    """Put one element at the end of a list."""
    held = elements(value)
    check_elements(len(held) + 1)
    if _depth(element) >= MAX_DEPTH - 1:
        raise ValueError(f"the list would be nested deeper than {MAX_DEPTH}")
    return [*held, element]


def _depth(value: Json) -> int:
    """How many lists and objects stand inside each other in ``value``; stops counting past what is allowed."""
    depth, level = 0, [value]
    while depth <= MAX_DEPTH:
        level = [held for outer in level for held in _held(outer)]
        if not level:
            return depth
        depth += 1
    return depth


def _held(value: Json) -> Sequence[Json]:
    if isinstance(value, Mapping):
        return list(value.values()) or [None]
    return (value or [None]) if is_list(value) else []


def map_property(value: Json, name: Json) -> Json:
    """Give the property of each object of a list."""
    if value is None:
        return None
    return [_selected(element, name, "map") for element in flat(value)]


def _selected(element: Json, name: Json, task: str) -> Json:
    if element is None or isinstance(element, bool | Mapping):
        return property_of(element, name)
    raise ValueError(f"{task} takes a list of objects, but found {kind_of(element)} ({shown(element)})")


def _matcher(task: str, name: Json, wanted: Json) -> Callable[[Json], bool]:
    """Say of an element whether its property is ``wanted``, or, where that is null, whether it is neither null nor
    false. The property of a text is the name itself, where the text holds it."""

    def matches(element: Json) -> bool:
        if isinstance(element, str):
            found: Json = name if isinstance(name, str) and name in element else None
        else:
            found = _selected(element, name, task)
        return found is not None and found is not False if wanted is None else equal(found, wanted)

    return matches


def where(value: Json, name: Json, wanted: Json = None) -> Json:
    """Keep the elements whose property equals a value, or is neither null nor false if no value is given."""
    if value is None or name is None:
        return None
    return list(filter(_matcher("where", name, wanted), flat(value)))


def reject(value: Json, name: Json, wanted: Json = None) -> Json:
    """Drop the elements whose property equals a value, or is neither null nor false if no value is given."""
    if value is None:
        return None
    matches = _matcher("reject", name, wanted)
    return [element for element in flat(value) if not matches(element)]


def has(value: Json, name: Json, wanted: Json = None) -> Json:
    """Say whether the property of some element equals a value, or is neither null nor false if no value is given."""
    return any(map(_matcher("has", name, wanted), flat(value)))


def find(value: Json, name: Json, wanted: Json = None) -> Json:
    """Give the first element whose property equals a value, or is neither null nor false; null where there is none."""
    return next(filter(_matcher("find", name, wanted), flat(value)), None)


def find_index(value: Json, name: Json, wanted: Json = None) -> Json:
    """Give the index of the first element whose property equals a value, or is neither null nor false; else null."""
    matches = _matcher("find_index", name, wanted)
    return next((index for index, element in enumerate(flat(value)) if matches(element)), None)


def sum_of(value: Json, name: Json = None) -> Json:
    """Add up the numbers of a list, or the property of its elements; text counts by its leading digits."""
    numbers: list[Number] = [
        lenient_number(element if name is None else property_of(element, name)) for element in flat(value)
    ]
    return total(numbers)


def slice_of(value: Json, start: Json, length: Json = None) -> Json:
    """Give a part of text or of a list: from an index (negative: from the end), one element or as many as asked for."""
    whole: str | Sequence[Json] = elements(value) if is_list(value) else written(value)
    begin = whole_number(start, "the start")
    count = 1 if length is None else whole_number(length, "the length")
    begin = begin + len(whole) if begin < 0 else begin
    part = whole[begin : begin + count] if begin >= 0 and count >= 0 else whole[:0]
    return part if isinstance(part, str) else list(part)


def keys(value: Json) -> Json:
    """List the keys of an object; null has none."""
    return list(_object("keys", value))


def values(value: Json) -> Json:
    """List the values of an object; null has none."""
    return list(_object("values", value).values())


def _object(task: str, value: Json) -> Mapping[str, Json]:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"{task} takes an object, not {kind_of(value)}")
