"""The step types that a running engine knows, and those that could not be loaded."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from types import ModuleType

from flo.engine.errors import FloError, NotFound
from flo.engine.step import StepType

ENTRY_POINT_GROUP = "flo.steps"


def canonical(name: str) -> str:
    """The one spelling under which a step type is found: lower case, ``__`` as ``.``."""
    return name.lower().replace("__", ".")


@dataclass(frozen=True, slots=True)
class BrokenPlugin:
    """A module of step types that could not be loaded: where it broke (``file:line``), and how."""

    name: str
    place: str
    message: str


class Registry:
    """Step types by name. Built once, then only read."""

    def __init__(self, step_types: Iterable[StepType] = (), broken: Iterable[BrokenPlugin] = ()) -> None:
        self.broken = tuple(broken)
        self._by_name: dict[str, StepType] = {}
        for step_type in step_types:
            if self._by_name.setdefault(canonical(step_type.name), step_type) is not step_type:
                raise FloError(f"step type {step_type.name!r} is declared twice")

    @classmethod
    def installed(cls) -> Registry:
        """Every step type that an installed distribution offers. One that is broken never keeps the rest from
        loading."""
        found: list[StepType] = []
        broken: list[BrokenPlugin] = []
        for entry in entry_points(group=ENTRY_POINT_GROUP):
            try:
                found += declared_in(entry.load())
            except (Exception, SystemExit) as error:
                broken.append(_broken(entry.value, error))
        return cls(found, broken)

    def __getitem__(self, name: str) -> StepType:
        try:
            return self._by_name[canonical(name)]
        except KeyError:
            raise NotFound("step type", name, self) from None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and canonical(name) in self._by_name

    def __iter__(self) -> Iterator[str]:
        return (step_type.name for step_type in self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def declared_in(module: ModuleType) -> list[StepType]:
    """The step types that a module holds."""
    return [value for value in vars(module).values() if isinstance(value, StepType)]


def _broken(name: str, error: BaseException) -> BrokenPlugin:
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else name
    return BrokenPlugin(name, place, f"{type(error).__name__}: {error}")
