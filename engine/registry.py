"""The step types that a running engine knows, and those that could not be loaded."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import re
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Final

from flo.engine.entry_points import entry_points
from flo.engine.errors import FloError, InputInvalid, NotFound, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.step import StepType

_LOADING: Final = "__flo_importing__"
"""What a module has while it is imported."""

ENTRY_POINT_GROUP = "flo.steps"

_REFERENCE: Final = re.compile(r"([\w.]+)\s*(?::\s*([\w.]+)\s*)?(?:\[.*\])?")
"""A module, and what it has of that name; then extras, which nobody asks for any more."""

_ONE_AT_A_TIME: Final = threading.RLock()
"""Held while a module is loaded: who redirects standard output meanwhile must be the one who puts it back."""
_ENGINE: Final = str(Path(__file__).parent)
_IMPORTING: Final = str(Path(importlib.__file__ or "").parent)


def canonical(name: str) -> str:
    """The one spelling under which a step type is found: lower case, ``__`` as ``.``."""
    return name.lower().replace("__", ".")


@frozen
class BrokenPlugin:
    """A module of step types that could not be loaded, or has none, or one of its types: where it broke
    (``file:line``), and how."""

    name: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"step types of {self.name} are missing: {self.place}: {self.message}"


class Registry:
    """Step types by name. Built once, then only read."""

    def __init__(
        self,
        step_types: Iterable[StepType] = (),
        broken: Iterable[BrokenPlugin] = (),
        sources: Mapping[str, str] | None = None,
    ) -> None:
        """``sources`` says for a name, in its one spelling, what ``load_source`` finds the type in."""
        self.broken = tuple(broken)
        self._by_name: dict[str, StepType] = {}
        self._sources = dict(sources or {})
        for step_type in step_types:
            if self._by_name.setdefault(canonical(step_type.name), step_type) is not step_type:
                raise FloError(f"step type {step_type.name!r} is declared twice")

    @classmethod
    def installed(cls, extra: Iterable[str] = ()) -> Registry:
        """Every step type that an installed distribution offers, and those of ``extra``: Python files or module names.

        What is broken never keeps the rest from loading: it stands in ``broken``. Of two types of one name the first
        stays. Raises ``InputInvalid`` where ``extra`` names a file that is not there.
        """
        loading = _Loading()
        offered = [loading.referred(value) for value in entry_points(ENTRY_POINT_GROUP)]
        named = {_sought(given): given for given in extra}
        for source in dict.fromkeys([*filter(None, offered), *named]):
            loading.take(source, named.get(source, source))
        return cls(loading.found.values(), loading.broken, loading.sources)

    def under(self, step_types: Iterable[StepType]) -> Registry:
        """The same, with these in the place of those of their names."""
        over = {canonical(step_type.name): step_type for step_type in step_types}
        sources = {name: source for name, source in self._sources.items() if name not in over}
        return Registry({**self._by_name, **over}.values(), self.broken, sources)

    def refuse_broken(self) -> None:
        """Raise ``FloError`` where something could not be loaded."""
        if self.broken:
            raise FloError("; ".join(map(str, self.broken)))

    def source(self, name: str) -> str:
        """What ``load_source`` finds a step type in: a module, or the path of a file. Raises ``NotFound``."""
        return self._sources.get(canonical(name)) or _origin(self[name])

    def __getitem__(self, name: str) -> StepType:
        found = self._by_name.get(name) or self._by_name.get(canonical(name))  # mostly it is spelled so
        if found is None:
            raise NotFound("step type", name, self)
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self._by_name or canonical(name) in self._by_name)

    def __iter__(self) -> Iterator[str]:
        return (step_type.name for step_type in self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


class _Loading:
    """What has been found so far, and what broke."""

    def __init__(self) -> None:
        self.found: dict[str, StepType] = {}
        self.sources: dict[str, str] = {}
        self.broken: list[BrokenPlugin] = []

    def referred(self, value: str) -> str | None:
        """The source that an entry point names; None where it names none."""
        if (reference := _REFERENCE.fullmatch(value)) is not None:
            return ":".join(filter(None, reference.groups()))
        message = f"the entry point {value!r} is none; write module or module:attribute"
        self.broken.append(BrokenPlugin(value, ENTRY_POINT_GROUP, message))
        return None

    def take(self, source: str, called: str) -> None:
        """Load one source, which people know as ``called``. Whatever it raises stays with it, an interrupt by a person
        excepted."""
        silent = contextlib.nullcontext() if source in sys.modules else contextlib.redirect_stdout(sys.stderr)
        try:
            with _ONE_AT_A_TIME, silent:  # standard output is data
                step_types = load_source(source)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit, and what others derive from BaseException
            self.broken.append(_broken(called, error))
            return
        if not step_types:
            message = 'it holds no step type; declare one with @step_type("category.name")'
            self.broken.append(BrokenPlugin(called, source, message))
        for step_type in step_types:
            name = canonical(step_type.name)
            if self.found.setdefault(name, step_type) is step_type:
                self.sources.setdefault(name, source)
            else:
                message = f"step type {step_type.name!r} is declared twice; that of {self.sources[name]} stays"
                self.broken.append(BrokenPlugin(called, _declared_at(step_type), message))


def load_source(source: str) -> list[StepType]:
    """The step types of a source: a module by its name, ``module:attribute``, or a Python file by its path. Imports it;
    raises whatever that raises."""
    if _is_file(source):
        return declared_in(_import_file(Path(source)))
    module, _, attribute = source.partition(":")
    found: object = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        found = getattr(found, part)
    if isinstance(found, StepType):
        return [found]
    if isinstance(found, ModuleType):
        return declared_in(found)
    raise FloError(f"{source} is neither a module nor a step type")


def declared_in(module: ModuleType) -> list[StepType]:
    """The step types that a module holds."""
    return [value for value in vars(module).values() if isinstance(value, StepType)]


def _is_file(source: str) -> bool:
    return source.endswith(".py") or "/" in source or "\\" in source or source.startswith(".")


def _sought(given: str) -> str:
    """A source that somebody named: a file by its whole path, so that it is found from any folder, and loaded once."""
    if not _is_file(given):
        return given
    path = Path(given).resolve()
    if path.is_dir():
        raise InputInvalid(given, "it is a folder; name a Python file with step types, or an installed module")
    if not path.exists():
        folder = Path(given).parent
        near = [str(folder / held.name) for held in folder.iterdir()] if folder.is_dir() else []
        raise InputInvalid(given, f"there is no such file of step types{did_you_mean(given, near)}")
    return str(path)


def _import_file(path: Path) -> ModuleType:
    """Import a Python file under a name that no other file has. Meanwhile it finds its neighbours, as a script does."""
    path = path.resolve()
    name = f"flo_steps_{path.stem}_{sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FloError(f"{path} is no Python file")
    if hasattr(sys.modules.get(name), _LOADING):
        raise FloError(f"{path} loads itself while it is loaded; guard what runs there with if __name__ == '__main__'")
    module = importlib.util.module_from_spec(spec)
    setattr(module, _LOADING, True)
    sys.modules[name] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        vars(module).pop(_LOADING, None)
        with contextlib.suppress(ValueError):  # the file may have changed the path itself
            sys.path.remove(str(path.parent))
    return module


def _origin(step_type: StepType) -> str:
    """Where a type comes from that was handed over as it is: its module, or its file where another process would not
    find the module by its name."""
    body = inspect.unwrap(step_type.body)
    module, file = getattr(body, "__module__", ""), inspect.getsourcefile(body) if inspect.isroutine(body) else None
    if file is None:
        return module
    inside = Path(*module.split("."))
    for folder in map(Path, sys.path):
        for place in (folder / inside.with_suffix(".py"), folder / inside / "__init__.py"):
            if place.is_file() and place.samefile(file):
                return module
    return str(Path(file).resolve())


def _declared_at(step_type: StepType) -> str:
    code = getattr(inspect.unwrap(step_type.body), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else _origin(step_type)


def _broken(name: str, error: BaseException) -> BrokenPlugin:
    """Where a module broke: the last line that is neither ours nor the import machinery's."""
    message = str(error) if isinstance(error, FloError) else f"{type(error).__name__}: {error}"
    if isinstance(error, ModuleNotFoundError) and error.name == name and Path(f"{name}.py").is_file():
        message += f"; did you mean the file {f'{name}.py'!r}?"
    if isinstance(error, SyntaxError) and error.filename:
        return BrokenPlugin(name, f"{error.filename}:{error.lineno}", f"{type(error).__name__}: {error.msg}")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else name
    return BrokenPlugin(name, place, message)


def _is_machinery(filename: str) -> bool:
    return filename.startswith(("<frozen importlib", _ENGINE, _IMPORTING))
