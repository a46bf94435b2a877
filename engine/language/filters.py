"""The filter table: every filter by name, with how many arguments it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from flo.engine.frozen import frozen
from flo.engine.language import filters_dates as dates
from flo.engine.language import filters_encodings as encodings
from flo.engine.language import filters_lists as lists
from flo.engine.language import filters_numbers as numbers
from flo.engine.language import filters_text as text
from flo.engine.values import Json


@frozen
class Filter:
    """One filter. ``least`` and ``most`` count its arguments besides the value.

    ``function(value, *arguments)`` takes and gives plain JSON values, and raises ``ValueError`` for what it refuses.
    ``sees_missing`` says that a missing value is its business: it is handed null for it, without a warning. The
    function's docstring says what the filter does.
    """

    name: str
    function: Callable[..., Json]
    least: int
    most: int
    sees_missing: bool = False


_ALL: Final = (
    Filter("default", encodings.default, 0, 1, sees_missing=True),
    # text
    Filter("append", text.append, 1, 1),
    Filter("capitalize", text.capitalize, 0, 0),
    Filter("downcase", text.downcase, 0, 0),
    Filter("escape", text.escape, 0, 0),
    Filter("escape_once", text.escape_once, 0, 0),
    Filter("lstrip", text.lstrip, 0, 0),
    Filter("newline_to_br", text.newline_to_br, 0, 0),
    Filter("prepend", text.prepend, 1, 1),
    Filter("remove", text.remove, 1, 1),
    Filter("remove_first", text.remove_first, 1, 1),
    Filter("remove_last", text.remove_last, 1, 1),
    Filter("replace", text.replace, 1, 2),
    Filter("replace_first", text.replace_first, 1, 2),
    Filter("replace_last", text.replace_last, 2, 2),
    Filter("rstrip", text.rstrip, 0, 0),
    Filter("split", text.split, 1, 1),
    Filter("strip", text.strip, 0, 0),
    Filter("strip_html", text.strip_html, 0, 0),
    Filter("strip_newlines", text.strip_newlines, 0, 0),
    Filter("to_string", text.to_string, 0, 0),
    Filter("trim", text.strip, 0, 0),
    Filter("truncate", text.truncate, 0, 2),
    Filter("truncatewords", text.truncatewords, 0, 2),
    Filter("upcase", text.upcase, 0, 0),
    # numbers and comparisons
    Filter("abs", numbers.absolute, 0, 0),
    Filter("at_least", numbers.at_least, 1, 1),
    Filter("at_most", numbers.at_most, 1, 1),
    Filter("ceil", numbers.ceil, 0, 0),
    Filter("divided_by", numbers.divided_by, 1, 1),
    Filter("eq", numbers.eq, 1, 1),
    Filter("floor", numbers.floor, 0, 0),
    Filter("gt", numbers.gt, 1, 1),
    Filter("gte", numbers.gte, 1, 1),
    Filter("lt", numbers.lt, 1, 1),
    Filter("lte", numbers.lte, 1, 1),
    Filter("minus", numbers.minus, 1, 1),
    Filter("modulo", numbers.modulo, 1, 1),
    Filter("ne", numbers.ne, 1, 1),
    Filter("plus", numbers.plus, 1, 1),
    Filter("round", numbers.round_to, 0, 1),
    Filter("times", numbers.times, 1, 1),
    Filter("to_boolean", numbers.to_boolean, 0, 0),
    Filter("to_number", numbers.to_number, 0, 0),
    # lists and objects
    Filter("arrayConcat", lists.array_concat, 1, 20),
    Filter("compact", lists.compact, 0, 1),
    Filter("concat", lists.concat, 1, 1),
    Filter("find", lists.find, 1, 2),
    Filter("find_index", lists.find_index, 1, 2),
    Filter("first", lists.first, 0, 0),
    Filter("has", lists.has, 1, 2),
    Filter("join", lists.join, 0, 1),
    Filter("keys", lists.keys, 0, 0),
    Filter("last", lists.last, 0, 0),
    Filter("map", lists.map_property, 1, 1),
    Filter("push", lists.push, 1, 1),
    Filter("reject", lists.reject, 1, 2),
    Filter("reverse", lists.reverse, 0, 0),
    Filter("size", lists.size, 0, 0),
    Filter("slice", lists.slice_of, 1, 2),
    Filter("sort", lists.sort, 0, 1),
    Filter("sort_natural", lists.sort_natural, 0, 1),
    Filter("sum", lists.sum_of, 0, 1),
    Filter("uniq", lists.uniq, 0, 1),
    Filter("values", lists.values, 0, 0),
    Filter("where", lists.where, 1, 2),
    # encodings and digests
    Filter("base64_decode", encodings.base64_decode, 0, 0),
    Filter("base64_encode", encodings.base64_encode, 0, 0),
    Filter("base64_url_safe_decode", encodings.base64_url_safe_decode, 0, 0),
    Filter("base64_url_safe_encode", encodings.base64_url_safe_encode, 0, 0),
    Filter("hmac_sha256", encodings.hmac_sha256, 1, 1),
    Filter("json", encodings.to_json, 0, 0),
    Filter("md5", encodings.md5, 0, 0),
    Filter("parse_json", encodings.parse_json, 0, 0),
    Filter("sha256", encodings.sha256, 0, 0),
    Filter("url_decode", encodings.url_decode, 0, 0),
    Filter("url_encode", encodings.url_encode, 0, 0),
    # dates
    Filter("date", dates.date, 1, 1),
    Filter("date_add", dates.date_add, 1, 2),
    Filter("date_sub", dates.date_sub, 1, 2),
    Filter("start_of_day", dates.start_of_day, 0, 1),
    Filter("to_timezone", dates.to_timezone, 1, 1),
)

FILTERS: Final[Mapping[str, Filter]] = MappingProxyType({each.name: each for each in _ALL})
"""Every filter by its name."""
