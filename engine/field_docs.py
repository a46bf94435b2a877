"""What the source of a class says of it and of its fields: docstrings, also those that stand after a field."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from itertools import pairwise
from typing import Any


def described_type(structure: type) -> str:
    """The docstring of a class, on one line; nothing where there is none but that which ``dataclass`` makes up."""
    said = structure.__dict__.get("__doc__") or ""
    made_up = dataclasses.is_dataclass(structure) and said.startswith(f"{structure.__name__}(")
    return "" if made_up else " ".join(said.split())


def described_fields(structure: type) -> dict[str, str]:
    """The texts that stand right after the fields of a class and of those that it derives from, by field."""
    said: dict[str, str] = {}
    for one in reversed(structure.__mro__):
        if one.__module__ not in ("builtins", "typing", "abc"):
            said |= _in_source(one)
    return said


def _in_source(structure: type) -> dict[str, str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(structure)))
    except (OSError, TypeError, SyntaxError):  # typed at a prompt, or made by a program
        return {}
    found = tree.body[0]
    body: list[Any] = found.body if isinstance(found, ast.ClassDef) else []
    said = {}
    for field, after in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(after):
            said[field.target.id] = " ".join(after.value.value.split())
    return said


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
