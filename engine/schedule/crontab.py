"""Reads crontab's five fields, and says of what is none which field is wrong, what is allowed, what is near."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from typing import Final

from flo.engine.errors import FloError, did_you_mean
from flo.engine.frozen import frozen
from flo.engine.schedule.cron import Cron, CronField, Entry

_LONGEST: Final = 200
_FIELDS: Final = "minute, hour, day of month, month, day of week"
_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ENTRY: Final = re.compile(r"(?:\*|([a-z0-9]+)(?:-([a-z0-9]+))?)(?:/([a-z0-9]+))?")
_NTH: Final = re.compile(r"([a-z0-9]+)#([a-z0-9]+)")
_LAST: Final = re.compile(r"([0-9]+|sun|mon|tue|wed|thu|fri|sat)l")
_DAYS_IN_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class CronInvalid(FloError):
    """An expression that means nothing, or never fires.

    ``field`` is ``minute``, ``hour``, ``day of month``, ``month`` or ``day of week``, None where it is the whole;
    ``message`` names it, and what is allowed, but not the expression.
    """

    def __init__(self, expression: str, message: str, field: str | None = None) -> None:
        self.expression, self.message, self.field = expression, message, field
        shown = expression if len(expression) <= 60 else f"{expression[:59]}…"
        super().__init__(f"no cron expression {shown!r}: {message}")


def parse_cron(text: str) -> Cron:
    """Read crontab's five fields, or an alias such as ``@daily``. Raises CronInvalid."""
    words = re.findall(r"[^ \t\r\n]+", text[: _LONGEST + 1])
    expression = " ".join(words)
    if len(text) > _LONGEST:
        raise CronInvalid(expression, f"{len(text)} characters came, expected at most {_LONGEST}")
    texts = _alias(expression) if expression.startswith("@") else words
    if len(texts) != len(_KINDS):
        raise CronInvalid(expression, _wrong_count(texts))
    fields = []
    for kind, written in zip(_KINDS, texts, strict=True):
        try:
            fields.append(_read_field(kind, written))
        except ValueError as refused:
            raise CronInvalid(expression, f"{kind.name} {refused}", kind.name) from None
    minute, hour, day, month, weekday = fields
    cron = Cron(expression, minute, hour, day, month, weekday, " ".join(map(_plainly, fields)))
    _refuse_impossible(cron)
    return cron


@frozen
class _Kind:
    """What a field may hold. ``unit`` is that of ``every`` in which its steps can be written."""

    name: str
    low: int
    high: int
    unit: str
    names: Mapping[str, int] = field(default_factory=dict)

    @property
    def allowed(self) -> str:
        names = list(self.names)
        return f"{self.low} to {self.high}" + (f", or {names[0]} to {names[-1]}" if names else "")

    @property
    def size(self) -> int:
        return 7 if self.name == "day of week" else self.high - self.low + 1


_DAY_OF_MONTH: Final = _Kind("day of month", 1, 31, "d")
_DAY_OF_WEEK: Final = _Kind("day of week", 0, 7, "d", {name: number for number, name in enumerate(_WEEKDAYS)})
_KINDS: Final = (
    _Kind("minute", 0, 59, "m"),
    _Kind("hour", 0, 23, "h"),
    _DAY_OF_MONTH,
    _Kind("month", 1, 12, "", {name: number for number, name in enumerate(_MONTHS, 1)}),
    _DAY_OF_WEEK,
)


def _read_field(kind: _Kind, text: str) -> CronField:
    """Raises ValueError, whose text goes on after the field's name."""
    entries = [_special(kind, entry) or _read_entry(kind, entry) for entry in text.split(",")]
    found = {
        value for entry in entries if not entry.special for value in range(entry.first, entry.last + 1, entry.step)
    }
    values = {value % 7 for value in found} if kind is _DAY_OF_WEEK else found
    return CronField(text, tuple(entries), tuple(sorted(values)), len(values) == kind.size)


def _read_entry(kind: _Kind, text: str) -> Entry:
    found = _ENTRY.fullmatch(text.lower())
    if not found:
        raise ValueError(f"{text!r} is not understood, expected {kind.allowed}, a range 'a-b', or a step '*/n'")
    start, end, step_text = found.groups()
    step = 1 if step_text is None else _read_step(kind, step_text)
    if start is None:
        return Entry(kind.low, kind.high, step, open=True)
    first = _read_value(kind, start)
    if end is None:
        return Entry(first, first) if step_text is None else Entry(first, kind.high, step, open=True)
    last = _read_value(kind, end)
    if last < first and kind is _DAY_OF_WEEK:
        last += 7
    if last < first:
        around = f"{first}-{kind.high},{kind.low}-{last}"
        raise ValueError(f"range {text!r} runs backwards, expected '{last}-{first}', or {around!r} over the end")
    return Entry(first, last, step)


def _read_value(kind: _Kind, text: str) -> int:
    if text in kind.names:
        return kind.names[text]
    if not text.isdigit():
        what = "is no number" if not kind.names else "is neither a number nor a name"
        short = text[:3] if text[:3] in kind.names else text
        raise ValueError(f"{text!r} {what}, expected {kind.allowed}{did_you_mean(short, kind.names)}")
    if not kind.low <= int(text) <= kind.high:
        raise ValueError(f"{text!r} is out of range, expected {kind.allowed}")
    return int(text)


def _read_step(kind: _Kind, text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise ValueError(f"step {text!r} is no step, expected 1 to {kind.size}")
    step = int(text)
    if step > kind.size:
        real = f'; for a real interval write every: "{step}{kind.unit}"' if kind.unit else ""
        raise ValueError(f"step {text!r} is longer than the field, expected 1 to {kind.size}{real}")
    return step


def _special(kind: _Kind, text: str) -> Entry | None:
    """``L``, ``LW``, ``5L``, ``5#2``; None where it is none of them. Raises ValueError as ``_read_field`` does."""
    lowered = text.lower()
    if not text.isascii():
        raise ValueError(f"{text!r} has a character that is not ASCII, expected {kind.allowed}")
    if not text:
        raise ValueError(f"has an empty entry, expected {kind.allowed} before and after each comma")
    if "?" in text:
        raise ValueError(f"{text!r} is not crontab's, write '*'")
    if kind is _DAY_OF_MONTH:
        if lowered in ("l", "lw"):
            return Entry(0, 0, special=text.upper())
        if lowered.startswith("l"):
            raise ValueError(f"{text!r} is not known, expected L (the last day) or LW (the last of Monday to Friday)")
        if re.fullmatch("[0-9]+w|w[0-9]*", lowered):
            raise ValueError(f"{text!r}, the nearest weekday, is not known, expected {kind.allowed}, L or LW")
    elif kind is _DAY_OF_WEEK:
        if lowered == "l":
            raise ValueError(f"{text!r} lacks its day, expected 6L for the month's last Saturday, or 6 for all")
        if found := _LAST.fullmatch(lowered):
            day = _read_value(kind, found[1]) % 7
            return Entry(day, day, special="last")
        if found := _NTH.fullmatch(lowered):
            day = _read_value(kind, found[1]) % 7
            if found[2] not in ("1", "2", "3", "4", "5"):
                raise ValueError(f"{text!r} asks for number {found[2]!r}, expected {found[1]}#1 to {found[1]}#5")
            return Entry(day, day, special=found[2])
    elif lowered in ("l", "lw"):
        raise ValueError(f"{text!r} belongs into day of month, expected {kind.allowed}")
    return None


def _plainly(read: CronField) -> str:
    """The field as cronsim reads it: all ranges written out; the star stays, since it has a meaning."""
    first = read.entries[0]
    if read.starred and first.step == 1:
        return "*"
    stars = [f"*/{first.step}"] if read.starred else []
    return ",".join([*stars, *map(str, read.values), *map(_specially, read.specials)])


def _specially(entry: Entry) -> str:
    if entry.special in ("L", "LW"):
        return entry.special
    return f"{entry.first}L" if entry.special == "last" else f"{entry.first}#{entry.special}"


def _refuse_impossible(cron: Cron) -> None:
    """A day that no calendar has; the search goes through every kind of year there is."""
    days, weekdays, months = cron.day_of_month, cron.day_of_week, cron.month.values
    longest = max(_DAYS_IN_MONTH[month - 1] for month in months)
    if cron.either_day or days.full:
        return
    if days.values and not days.specials and days.values[0] > longest:
        which = ", ".join(_MONTHS[month - 1] for month in months)
        message = f"day of month {days.text!r} never comes in {which}, expected 1 to {longest}, or L for the last day"
        raise CronInvalid(cron.expression, message, "day of month")
    if not weekdays.full and next(cron.calendar(datetime(2000, 1, 1)), None) is None:
        message = f"day of month {days.text!r} never falls on day of week {weekdays.text!r}, and both are needed as one"
        raise CronInvalid(cron.expression, f"{message} begins with '*'; a list means either of them", "day of month")


def _alias(expression: str) -> Sequence[str]:
    name = expression.lower()
    if name in _ALIASES:
        return _ALIASES[name].split()
    if name == "@reboot":
        raise CronInvalid(expression, "a schedule knows no boot; run the workflow then, or give startAt")
    if name.startswith("@every"):
        wanted = expression[len("@every") :].strip() or "5m"
        raise CronInvalid(expression, f'an interval is no cron expression; write every: "{wanted}" instead of cron')
    hint = did_you_mean(name, _ALIASES) or f"; known are {', '.join(_ALIASES)}"
    raise CronInvalid(expression, f"no alias {expression!r}{hint}")


def _wrong_count(texts: Sequence[str]) -> str:
    """What to say of too many or too few fields; an expression that it proposes is a right one."""
    count = len(texts)
    if not texts:
        return f"it is empty; flo's cron has five fields, minute first ({_FIELDS}), such as '0 9 * * mon-fri'"
    came = f"{count} field{'s' * (count > 1)} came; flo's cron has five, minute first ({_FIELDS})"
    seconds = re.fullmatch(r"\*(?:/([0-9]{1,2}))?", texts[0])
    if count < 5:
        return came + _proposed("did you mean {}?", [*texts, *"*" * (5 - count)])
    if count == 6 and re.search("[0-9]{4}", texts[5]):
        return came + _proposed("there is no year, startAt and endAt bound a schedule; did you mean {}?", texts[:5])
    if count == 6 and seconds and set(texts[1:]) <= {"*", "?"}:
        return f'{came}; for a schedule of seconds write every: "{seconds[1] or 1}s"'
    if count in (6, 7):
        return came + _proposed("there are no seconds; did you mean {}?", texts[1:6])
    return came


def _proposed(words: str, texts: Sequence[str]) -> str:
    text = " ".join("*" if text == "?" else text for text in texts)
    with suppress(CronInvalid):
        parse_cron(text)
        # Who writes '?' counts days of week from Sunday as 1.
        shifted = " (days of week count from Sunday as 0)" if "?" in texts and texts[4][0].isdigit() else ""
        return f"; {words.format(repr(text))}{shifted}"
    return ""
