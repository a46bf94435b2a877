"""The sample distribution of step types: its tests pass, and flo finds everything in it that it says it has."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from flo.engine.checking.load import load
from flo.engine.registry import Registry

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "acme-greet"
SETTINGS: dict[str, Any] = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))


def test_its_own_tests_pass() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(EXAMPLE)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout


def test_its_entry_points_name_all_of_its_step_types(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))
    modules = SETTINGS["project"]["entry-points"]["flo.steps"].values()
    registry = Registry.installed(modules)
    found = {name: registry.source(name) for name in registry if name.startswith("acme.")}
    assert found == {
        "acme.greet": "acme_greet.greetings",
        "acme.send-card": "acme_greet.cards",
        "acme.take-number": "acme_greet.cards",
        "acme.stamp": "acme_greet.stamps",
    }
    assert all(registry[name].summary for name in found)
    assert not [held for held in registry.broken if held.name in modules]
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    assert all(f"| `{name}` |" in readme for name in found)
    assert not load((EXAMPLE / "card.json").read_bytes(), registry).warnings
