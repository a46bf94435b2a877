"""Step types are found by name, whatever the spelling, and a broken module never keeps the rest out."""

from __future__ import annotations

from pathlib import Path

import pytest

from flo.engine.errors import FloError, NotFound
from flo.engine.registry import Registry
from flo.engine.step import StepType

PLUGIN = """
from flo import step_type

@step_type("{name}", schema={{"type": "object"}}, output={{"type": "object"}}, example={{}})
def body(call, input):
    "Do nothing."
    return {{}}
"""


def plugin(folder: Path, file: str, source: str) -> str:
    path = folder / file
    path.write_text(source)
    return str(path)


def test_every_spelling_of_a_name_finds_the_same_step_type() -> None:
    registry = Registry.installed()
    assert registry["CORE.For-Each"] is registry["core.for-each"] is registry["core__for-each"]
    assert "core.log" in registry


def test_an_unknown_step_type_names_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"no step type 'core.foreach'; did you mean 'core.for-each'\?"):
        Registry.installed()["core.foreach"]


def test_a_file_adds_its_step_types(tmp_path: Path) -> None:
    registry = Registry.installed([plugin(tmp_path, "greet.py", PLUGIN.format(name="acme.greet"))])
    assert registry["acme.greet"].summary == "Do nothing."


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "import nowhere_to_be_found", "1 / 0", "def broken(:"])
def test_a_broken_file_stands_aside_with_file_and_reason(tmp_path: Path, line: str) -> None:
    good = plugin(tmp_path, "good.py", PLUGIN.format(name="acme.good"))
    broken = plugin(tmp_path, "broken.py", f"\n{line}\n")
    registry = Registry.installed([broken, good])
    assert "acme.good" in registry
    [found] = registry.broken
    assert found.name == broken
    assert found.message
    assert ":" in found.place


def test_two_step_types_of_one_name_are_refused(tmp_path: Path) -> None:
    file = plugin(tmp_path, "log.py", PLUGIN.format(name="Core.Log"))
    registry = Registry.installed([file])
    assert registry["core.log"].summary != "Do nothing."
    assert "declared twice" in registry.broken[0].message
    found = Registry.installed()["core.log"]
    assert isinstance(found, StepType)
    with pytest.raises(FloError, match="declared twice"):
        Registry(
            [
                found,
                Registry.installed([plugin(tmp_path, "b.py", PLUGIN.format(name="acme.b"))])["acme.b"],
                _twin(found),
            ]
        )


def _twin(step_type: StepType) -> StepType:
    return StepType(
        step_type.name, step_type.body, step_type.schema, step_type.output_schema, "", "", step_type.example
    )
