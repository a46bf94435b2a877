"""What an isolated step's process and its engine say to each other: messages in frames, on a private socket.

A frame is ``flo`` and a version byte, the length of the rest (8 bytes, big endian), and one pickled message. Values
that may not be readable at the other end are pickled once more inside a message, so that the message itself always
arrives. Pickle is read from our own processes alone.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from flo.engine.errors import StepFailed
from flo.engine.frozen import frozen
from flo.engine.values import LazyList

MAX_FRAME: Final = 512 * 1024 * 1024
"""A message may have so many bytes: 64 Mi characters of four bytes each, twice."""

IMPORTING: Final = "FLO_ISOLATED_IMPORTING"
"""Set in the environment of a process while it imports its source: what that starts must not start another one."""

_MARK: Final = b"flo\x01"
_HEADER: Final = struct.Struct("!4sQ")


class FrameBroken(Exception):
    """What came is no frame: nothing that comes after it can be read."""


@frozen
class Setup:
    """The first message to a process: where it finds what it needs, and who its engine is."""

    parent: int
    import_path: tuple[str, ...]
    source: str


@frozen
class Work:
    """Run the body of a step type once. ``deadline`` is on the clock of the call; ``system_clock`` says that this is
    the machine's."""

    step_type: str
    fields: Mapping[str, Any]
    deadline: float | None
    system_clock: bool
    input: bytes


@frozen
class Ask:
    """The body wants something of its ``StepCall``: ``target`` is a field of it, ``method`` one of its methods."""

    number: int
    target: str
    method: str
    arguments: bytes


@frozen
class Answer:
    """What an ``Ask`` gave, or raised."""

    number: int
    payload: bytes
    raised: bool


@frozen
class Ended:
    """What the body gave, or raised. ``trace`` tells where an error came from that nobody meant to raise; ``clean``
    says that no thread and no process of the body goes on."""

    payload: bytes
    raised: bool
    clean: bool
    trace: str = ""


def framed(message: object) -> bytes:
    """A message as it goes through the socket. Raises ``StepFailed`` (``too_large``)."""
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    if len(content) > MAX_FRAME:
        what = f"{len(content):,} bytes are too many for the process of an isolated step, the limit is {MAX_FRAME:,}"
        raise StepFailed(what, code="too_large", retryable=False)
    return _HEADER.pack(_MARK, len(content)) + content


class Incoming:
    """Puts messages together from what a socket gives, piece by piece."""

    def __init__(self) -> None:
        self._held = bytearray()

    def __bool__(self) -> bool:
        return bool(self._held)

    def feed(self, piece: bytes | memoryview) -> Iterator[Any]:
        """Take a piece; gives the messages that are whole with it. Raises ``FrameBroken``."""
        self._held += piece
        while len(self._held) >= _HEADER.size:
            mark, length = _HEADER.unpack_from(self._held)
            if mark != _MARK or length > MAX_FRAME:
                raise FrameBroken
            end = _HEADER.size + length
            if len(self._held) < end:
                return
            with memoryview(self._held) as held, held[_HEADER.size : end] as content:
                message = _message(content)
            del self._held[:end]
            yield message


def _message(content: memoryview) -> Any:
    try:
        return pickle.loads(content)
    except Exception as error:  # unpickling may raise anything
        raise FrameBroken from error


def packed(value: object) -> bytes:
    """A value for the other side: lists that lie in the store are read, other mappings become plain objects. Raises
    whatever pickling it raises."""
    buffer = io.BytesIO()
    _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def packed_error(error: BaseException) -> bytes:
    """An error for the other side, with its fields. Of a class that only a step type's own module knows, the engine's
    class that it belongs to arrives."""
    if isinstance(error, StepFailed):
        try:
            return packed(_Carried(_known_class(error), error.args, vars(error)))
        except Exception:  # a field that somebody added
            return packed(_step_failed(error.message, error.code, error.retryable, error.retry_after))
    if _known_class(error) is type(error):
        return packed(_Carried(type(error), error.args, vars(error)))
    return packed(_step_failed(said(error), "step_error", True, None))


def unpacked(payload: bytes) -> Any:
    """A value, or an error, from the other side. Raises whatever unpickling it raises."""
    value = pickle.loads(payload)
    return value.remade() if isinstance(value, _Carried) else value


def said(error: BaseException) -> str:
    """``TypeName: message``, also of an error that cannot say what it is."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


@frozen
class _Carried:
    """An error in parts: pickle would call its class with arguments that it may not take."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    fields: Mapping[str, Any]

    def remade(self) -> BaseException:
        if self.kind.__module__ == "builtins":
            return self.kind(*self.arguments)
        error = self.kind.__new__(self.kind)
        error.args = self.arguments
        vars(error).update(self.fields)
        return error


def _known_class(error: BaseException) -> type[BaseException]:
    """The class of an error, or the nearest one above it that both sides know."""
    return next(each for each in type(error).__mro__ if f"{each.__module__}.".startswith(("builtins.", "flo.")))


def _step_failed(message: str, code: str, retryable: bool, retry_after: float | None) -> _Carried:
    made = StepFailed(message, code=code, retryable=retryable, retry_after=retry_after)
    return _Carried(StepFailed, made.args, vars(made))


class _Pickler(pickle.Pickler):
    """Makes plain lists and objects of those that only this process has."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, LazyList):
            return list, (list(value),)
        if isinstance(value, Mapping):
            return dict, (dict(value),)
        return NotImplemented
