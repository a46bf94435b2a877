"""A net for secrets that lost their mark: known texts, in the spellings that programs give them, found in any text.

Marks are the first means; this is the second, for text that a step type or a server made of a secret. Secrets of fewer
than four characters are not looked for: that would blank ordinary words.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from flo.engine.secrecy import HIDDEN, Lost, Secret, shown_forms
from flo.engine.values import Json, LazyList, dump

SHORTEST: Final = 4
"""Secrets with fewer characters are not looked for in text."""

SHORTEST_IN_ROWS: Final = 8
"""A row is not refused for the sake of a shorter one without a mark: it may be an ordinary word."""

_SHORTEST_LINE: Final = 16
"""Lines of a secret with several are looked for alone, if they are so long."""

_SHORTEST_CODE: Final = 8
"""The part of base64 that does not depend on what stands around it is looked for, if it is so long."""

_SAFE_IN_URLS: Final = ("", "/", "!$%&'()*+,/:;=@[\\]^|", "!$%&'()*+,/:;=?@[\\]^`{|}")
"""What programs leave as it is in a value and a path; what core.http does in a path and a query."""


class Net:
    """Texts to be hidden, in each of their spellings, whatever their case. It never changes."""

    def __init__(self, secrets: Iterable[str] = (), under: Net | None = None) -> None:
        """``under`` is a net whose texts this one looks for, too."""
        known = [secret for secret in secrets if len(secret) >= SHORTEST and type(secret) is not Lost]
        self._spellings = {spelling for secret in known for spelling in _spellings(str(secret))}
        self._folded = {spelling.lower() for spelling in self._spellings}
        self._written = self._folded | {dump(spelling)[1:-1] for spelling in self._folded}
        long = [secret for secret in known if len(secret) >= SHORTEST_IN_ROWS]
        self._long = {spelling.lower() for secret in long for spelling in _spellings(str(secret))}
        self._numbers = {str(secret) for secret in known if _is_number(secret)}
        self._shown = {str(secret).lower(): secret.shown for secret in known if isinstance(secret, Secret)}
        self._pattern: re.Pattern[str] | None = None
        if under is not None:
            self._spellings |= under._spellings
            self._folded |= under._folded
            self._written |= under._written
            self._long |= under._long
            self._numbers |= under._numbers
            self._shown = under._shown | self._shown

    def __bool__(self) -> bool:
        return bool(self._spellings)

    def mask(self, text: str) -> str:
        """The same text, ``***`` in the place of each secret."""
        if type(text) is Secret:
            return text.shown
        if not self._spellings:
            return text
        folded = text.lower()
        if not any(spelling in folded for spelling in self._folded):
            return text
        if self._pattern is None:  # the longest first: one may be the beginning of another
            longest_first = sorted(self._spellings, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
        masked = self._pattern.sub(lambda found: self._shown.get(found[0].lower(), HIDDEN), text)
        return masked if masked != text else HIDDEN

    def catch(self, value: Json) -> Json:
        """The same value, each text in it that holds a secret marked as one. What is read from the store when something
        refers to it stays."""
        return self._caught(value) if self._spellings and self._may_hold(value) else value

    def holds(self, value: Json) -> bool:
        """Whether a value that is no text is one of the secrets: a number whose digits are."""
        return bool(self._numbers) and type(value) in (int, float) and dump(value) in self._numbers

    @property
    def numbers(self) -> bool:
        """Whether a number may be one of the secrets."""
        return bool(self._numbers)

    def finds(self, value: Json) -> bool:
        """Whether a secret of some length stands somewhere in a value, its mark lost."""
        return bool(self._long) and self._may_hold(value) and self._finds(value)

    def shown(self, value: Json) -> Json:
        """A value as people may see it: what stands for secrets in their place. What is read from the store when
        something refers to it stays."""
        forms: Json = shown_forms(self.catch(value))
        return self._without_numbers(forms) if self._numbers else forms

    def _may_hold(self, value: Json) -> bool:
        """Whether a secret stands somewhere in a value, looked for in its JSON at once."""
        if isinstance(value, Mapping):  # without what lies in the store
            value = {key: held for key, held in value.items() if not isinstance(held, LazyList)}
        if isinstance(value, LazyList):
            return False
        folded = dump(value).lower()
        return any(spelling in folded for spelling in self._written) or self.holds(value)

    def _caught(self, value: Json) -> Json:
        if type(value) is str:
            masked = self.mask(value)
            return value if masked is value else Secret(value, masked, certain=self._finds(value))
        if isinstance(value, Mapping):
            return {self._caught(key): self._caught(held) for key, held in value.items()}  # type: ignore[misc]
        if isinstance(value, list | tuple):
            return [self._caught(held) for held in value]
        return value

    def _finds(self, value: Json) -> bool:
        if isinstance(value, Mapping):
            return any(self._finds(key) or self._finds(held) for key, held in value.items())
        if isinstance(value, list | tuple):
            return any(map(self._finds, value))
        if isinstance(value, str):
            folded = value.lower()
            return any(text in folded for text in self._long)
        return type(value) in (int, float) and dump(value) in self._long

    def _without_numbers(self, value: Json) -> Json:
        if isinstance(value, dict):
            return {key: self._without_numbers(held) for key, held in value.items()}
        if isinstance(value, list):
            return [self._without_numbers(held) for held in value]
        return HIDDEN if self.holds(value) else value


def _is_number(text: str) -> bool:
    return text[:1] in "-0123456789" and text[1:].replace(".", "", 1).isdigit()


def _spellings(secret: str) -> Iterator[str]:
    """A secret as programs write it."""
    from html import escape  # a large table, for few runs

    yield secret
    yield json.dumps(secret)[1:-1]
    yield dump(secret)[1:-1]
    yield repr(secret)[1:-1]
    yield escape(secret)
    yield quote_plus(secret)
    yield from (quote(secret, safe=safe) for safe in _SAFE_IN_URLS)
    raw = secret.encode("utf-8", "surrogatepass")
    yield raw.hex()
    for code in _base64(raw):
        yield code
        yield code.replace("+", "-").replace("/", "_")
    lines = secret.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _SHORTEST_LINE)


def _base64(raw: bytes) -> Iterator[str]:
    """A secret in base64, alone and in the middle of something: the characters that only it decides."""
    for before in range(3):
        code = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        first, surplus = (0, 2, 3)[before], (before + len(raw)) % 3
        part = code[first : len(code) - (1 if surplus else 0)]
        if len(part) >= _SHORTEST_CODE:
            yield part


EMPTY: Final = Net()
"""Looks for nothing: of a run that has come across no secret."""
