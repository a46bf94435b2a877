"""Every error raised on purpose.

FloError                 exit code 1: the user's mistake
├── InputInvalid         input that is no JSON, or not the JSON that was asked for
├── IllegalState         what is asked for is not possible as an execution stands
├── NotFound             no workflow, execution, recipe, row … of that name
├── WorkflowInvalid      exit code 3: the document is wrong; carries every problem
├── ExpressionInvalid    an expression or template that cannot be compiled (checking turns it into a problem)
├── StepFailed           exit code 3: a step ran and failed; carries code and whether a retry may help
│   ├── TemplateFailed   a template of the step gave no value
│   ├── ValueRefused     a value that JSON, or a store, cannot hold
│   └── FilterInvalid    a ``where``, ``orderBy`` or ``set`` that means nothing
├── RunCancelled         exit code 130: the run was asked to stop
└── StoreError           exit code 2: the store could not do what was asked
    ├── StoreUnavailable cannot be reached, or refuses the password
    │   └── StoreClosed  was closed by this program
    ├── StoreTooNew      written by a newer flo
    └── StoreFull        no space, or over a quota
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Literal

from flo.engine.frozen import frozen


class FloError(Exception):
    """Base of every error raised on purpose. ``exit_code`` is what the command ends with."""

    exit_code: ClassVar[int] = 1


class InputInvalid(FloError):
    """What came in is no JSON, or not what was asked for.

    ``line`` and ``column`` count from 1; 0 where the place is unknown.
    """

    def __init__(self, source: str, message: str, line: int = 0, column: int = 0) -> None:
        self.source, self.message, self.line, self.column = source, message, line, column
        where = f"{source}, line {line}, column {column}" if line else source
        super().__init__(f"{where}: {message}")


class IllegalState(FloError):
    """What is asked for is not possible as an execution stands."""


class NotFound(FloError):
    """Nothing of that name is there; names the nearest that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str] = ()) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"no {kind} {name!r}{did_you_mean(name, known)}")


@frozen
class Problem:
    """One thing that is wrong in a document.

    ``place`` is its JSON path (``steps[1].input.items``), ``line`` and ``column`` count from 1 (0: unknown), ``order``
    sorts problems as they stand in the document. A ``warning`` does not keep the workflow from running.
    """

    place: str
    message: str
    step_id: str | None = None
    line: int = 0
    column: int = 0
    severity: Literal["error", "warning"] = "error"

    def __str__(self) -> str:
        line = f" (line {self.line})" if self.line else ""
        step = f" in step {self.step_id!r}" if self.step_id else ""
        return f"{self.place or 'document'}{line}{step}: {self.message}"


class WorkflowInvalid(FloError):
    """A document is wrong. Carries every problem found, sorted by place."""

    exit_code = 3

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        self.source, self.problems = source, tuple(problems)
        count = len(self.problems)
        noun = "problem" if count == 1 else "problems"
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(f"{source} has {count} {noun}:{lines}")


class ExpressionInvalid(FloError):
    """An expression or template cannot be compiled. ``position`` counts characters of ``text`` from 0."""

    exit_code = 3

    def __init__(self, message: str, text: str, position: int) -> None:
        self.message, self.text, self.position = message, text, position
        super().__init__(f"{message}\n{caret(text, position)}")


class StepFailed(FloError):
    """A step ran and failed. ``code`` names the kind for ``retryOn``; ``retryable`` says whether another try may
    help, ``retry_after`` (seconds) that it will not before."""

    exit_code = 3

    def __init__(
        self, message: str, *, code: str = "step_failed", retryable: bool = True, retry_after: float | None = None
    ) -> None:
        self.message = message if isinstance(message, str) else str(message)  # authors raise it, and types are lost
        self.code = code if isinstance(code, str) else str(code)
        self.retryable, self.retry_after = retryable, retry_after
        super().__init__(self.message)


class TemplateFailed(StepFailed):
    """A template gave no value. ``place`` is the JSON path of the string that holds it, relative to the step's
    ``input``."""

    def __init__(self, message: str, *, text: str = "", position: int = 0, place: str = "") -> None:
        self.text, self.position, self.place = text, position, place
        self.reason = message
        where = f"{place}: " if place else ""
        shown = f"\n{caret(text, position)}" if text else ""
        super().__init__(f"{where}{message}{shown}", code="template_error", retryable=False)

    def at(self, place: str) -> TemplateFailed:
        """The same failure, placed in the document."""
        return TemplateFailed(self.reason, text=self.text, position=self.position, place=place)


class ValueRefused(StepFailed):
    """A value that JSON or a store cannot hold. ``place`` is its key's path."""

    def __init__(self, place: str, what: str) -> None:
        self.place, self.what = place, what
        where = f"{place}: " if place else ""
        super().__init__(f"{where}{what} cannot be stored as JSON", code="invalid_value", retryable=False)


class FilterInvalid(StepFailed):
    """A condition, an order or a change that means nothing; ``place`` is its path (``where[0].value``)."""

    def __init__(self, place: str, message: str) -> None:
        self.place, self.reason = place, message
        super().__init__(f"{place}: {message}", code="invalid_filter", retryable=False)


class RunCancelled(FloError):
    """The run was asked to stop, and a step gave way."""

    exit_code = 130


class StoreError(FloError):
    """The store could not do what was asked. The message never holds a password."""

    exit_code = 2


class StoreUnavailable(StoreError):
    """The store cannot be reached, or refuses the credentials."""


class StoreClosed(StoreUnavailable):
    """The store was closed by this program: it will not come back."""


class StoreTooNew(StoreError):
    """The store was written by a newer flo."""

    def __init__(self, url: str, found: int, known: int) -> None:
        self.found, self.known = found, known
        super().__init__(f"{url} has schema version {found}, this flo knows up to {known}; install a newer flo-engine")


class StoreFull(StoreError):
    """The disk or the quota of the store is full; nothing was changed."""


def worded(error: BaseException) -> str:
    """What an error is and says: ``ValueError: no such place``. One that cannot say anything is named alone."""
    try:
        said = str(error)
    except Exception:
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Give ``; did you mean 'x'?`` for the nearest known name, or nothing."""
    from difflib import get_close_matches  # every command imports this module, and few have to ask

    candidates = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), candidates, n=1)
    return f"; did you mean {candidates[close[0]]!r}?" if close else ""


def caret(text: str, position: int) -> str:
    """Show the line of ``text`` that holds ``position``, and a caret under it. Long lines are cut around it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    column = position - start
    if column > 60:
        line, column = "…" + line[column - 50 :], 51
    line = line if len(line) <= 100 else line[:99] + "…"
    return f"    {line}\n    {' ' * column}^"
