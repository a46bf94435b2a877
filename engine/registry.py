"""The step types that a running engine knows, and those that could not be loaded."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
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
    def installed(cls, extra: Iterable[str] = ()) -> Registry:
        """Every step type that an installed distribution offers, and those of ``extra``: Python files or module names.

        One module that is broken never keeps the rest from loading: it stands in ``broken``.
        """
        found: dict[str, StepType] = {}
        broken: list[BrokenPlugin] = []
        sources = [(entry.value, entry.load) for entry in metadata.entry_points(group=ENTRY_POINT_GROUP)]
        sources += [(name, partial(_import, name)) for name in extra]
        for name, load in sources:
            try:
                for step_type in declared_in(load()):
                    if found.setdefault(canonical(step_type.name), step_type) is not step_type:
                        raise FloError(f"step type {step_type.name!r} is declared twice")
            except (Exception, SystemExit) as error:
                broken.append(_broken(name, error))
        return cls(found.values(), broken)

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


def _import(name: str) -> ModuleType:
    """Import a module by its name, or a Python file by its path."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    spec = importlib.util.spec_from_file_location(f"flo_steps_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _broken(name: str, error: BaseException) -> BrokenPlugin:
    """Where a module broke: the last line that is neither ours nor the import machinery's."""
    if isinstance(error, SyntaxError) and error.filename:
        return BrokenPlugin(name, f"{error.filename}:{error.lineno}", f"{type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else name
    return BrokenPlugin(name, place, f"{type(error).__name__}: {error}")


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen importlib") or filename in (__file__, importlib.__file__, metadata.__file__)
