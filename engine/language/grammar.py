"""The words and operators of expressions, and how tight they bind.

From the loosest to the tightest: ``a if c else b``, ``or``, ``and``, ``not``, comparisons (with ``in`` and
``contains``), filters, ``+ -``, ``* / %``, the sign. So ``price * count | round`` rounds the product, and
``items | size > 3`` compares the size, as ``|`` binds in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

from flo.engine.comparison import equal
from flo.engine.language import operators
from flo.engine.language.operators import Value
from flo.engine.values import Json

Special = Literal["", "empty", "blank"]

OR, AND, NOT, COMPARISON, FILTER, SUM, PRODUCT, SIGN = range(10, 90, 10)
COMPARISONS: Final[Mapping[str, Callable[[Json, Json], bool]]] = {
    "==": equal,
    "!=": operators.unequal,
    "<>": operators.unequal,
    "<": operators.less,
    "<=": operators.at_most,
    ">": operators.greater,
    ">=": operators.at_least,
    "in": operators.within,
    "not in": operators.within,
    "contains": operators.within,
}
ARITHMETIC: Final[Mapping[str, Callable[[Value, Value], Json]]] = {
    "+": operators.add,
    "-": operators.subtract,
    "*": operators.multiply,
    "/": operators.divide,
    "%": operators.remainder,
}
BINDING: Final = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(COMPARISONS, COMPARISON),
    "|": FILTER,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "%": PRODUCT,
}
LITERALS: Final[Mapping[str, Json]] = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "null": None,
    "nil": None,
    "none": None,
    "None": None,
    "empty": "",
    "blank": "",
}
SPECIALS: Final[Mapping[str, Special]] = {"empty": "empty", "blank": "blank"}
OPERATOR_WORDS: Final = frozenset({"and", "or", "in", "contains", "if", "else"})
