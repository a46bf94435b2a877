"""Step types are found by name, whatever the spelling, and a broken module never keeps the rest out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flo.engine.errors import FloError, InputInvalid, NotFound
from flo.engine.registry import BrokenPlugin, Registry, load_source
from flo.engine.step import StepCall, StepType, step_type
from flo.engine.values import JsonObject

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


def broken_in(registry: Registry, file: str) -> list[BrokenPlugin]:
    return [held for held in registry.broken if held.name == file]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("raise BaseException('of another kind')", "BaseException: of another kind"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("from flo import step_type; step_type('greet')(print)", "'greet' is no name for a step type"),
    ],
)  # fmt: skip
def test_a_broken_file_stands_aside_with_file_and_reason(tmp_path: Path, line: str, message: str) -> None:
    good = plugin(tmp_path, "good.py", PLUGIN.format(name="acme.good"))
    broken = plugin(tmp_path, "broken.py", f"\n{line}\n")
    better = plugin(tmp_path, "better.py", PLUGIN.format(name="acme.better"))
    registry = Registry.installed([good, broken, better])
    assert {"acme.good", "acme.better", "core.log"} <= set(registry)
    [found] = broken_in(registry, broken)
    assert found.message.startswith(message)
    assert found.place == f"{broken}:2"
    with pytest.raises(FloError, match=r"broken\.py:2: "):
        registry.refuse_broken()


def test_what_an_installed_distribution_offers_is_found_and_a_bad_entry_point_stands_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("acme_offered", "acme_spread"):
        plugin(tmp_path, f"{module}.py", PLUGIN.format(name=module.replace("_", ".")))
    file = plugin(tmp_path, "acme_file.py", PLUGIN.format(name="acme.file"))
    lines = [
        "whole = acme_offered",
        "one = acme_spread : body [extra]",
        f"file = {file}",
        "empty =",
        "gone = acme_gone",
    ]
    directory = tmp_path / "acme_offers-1.0.dist-info"
    directory.mkdir()
    directory.joinpath("entry_points.txt").write_text("\n".join(["[flo.steps]", *lines]))
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry.installed()
    assert {"acme.offered", "acme.spread", "core.log"} <= set(registry)
    assert "acme.file" not in registry
    assert (registry.source("acme.offered"), registry.source("acme.spread")) == ("acme_offered", "acme_spread:body")
    for value in (file, ""):
        [found] = broken_in(registry, value)
        assert found.place == "flo.steps"
        assert found.message == f"the entry point {value!r} is none; write module or module:attribute"
    assert broken_in(registry, "acme_gone")


def test_an_interrupt_while_step_types_load_is_not_a_broken_plugin(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        Registry.installed([plugin(tmp_path, "interrupted.py", "raise KeyboardInterrupt")])


def test_what_a_plugin_prints_is_no_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Registry.installed([plugin(tmp_path, "loud.py", "print('here I am')")])
    assert capsys.readouterr() == ("", "here I am\n")


def test_a_file_that_is_not_there_is_the_mistake_of_who_named_it(tmp_path: Path) -> None:
    near = plugin(tmp_path, "greet.py", "")
    wrong = str(tmp_path / "geet.py")
    with pytest.raises(InputInvalid, match="there is no such file of step types") as refused:
        Registry.installed([wrong])
    assert str(refused.value).endswith(f"did you mean {near!r}?")
    for folder in (f"{tmp_path}/", ".", ".."):
        with pytest.raises(InputInvalid, match="it is a folder"):
            Registry.installed([folder])


def test_a_file_finds_its_neighbours_while_it_is_imported(tmp_path: Path) -> None:
    plugin(tmp_path, "neighbour_of_a_file.py", "NAME = 'acme.neighbour'\n")
    source = "from neighbour_of_a_file import NAME\n" + PLUGIN.format(name="{name}").replace('"{name}"', "NAME")
    file = plugin(tmp_path, "steps.py", source)
    before = list(sys.path)
    assert "acme.neighbour" in Registry.installed([file])
    assert sys.path == before


def test_a_name_without_its_ending_gets_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plugin(tmp_path, "nowhere_installed.py", PLUGIN.format(name="acme.greet"))
    [found] = broken_in(Registry.installed(["nowhere_installed"]), "nowhere_installed")
    assert found.message.endswith("did you mean the file 'nowhere_installed.py'?")


def test_a_source_without_a_step_type_is_told(tmp_path: Path) -> None:
    file = plugin(tmp_path, "empty.py", "def greet(call, input): ...\n")
    [found] = broken_in(Registry.installed([file]), file)
    assert str(found).endswith('it holds no step type; declare one with @step_type("category.name")')


def test_of_two_types_of_one_name_the_first_stays_and_nothing_else_is_lost(tmp_path: Path) -> None:
    first = plugin(tmp_path, "first.py", PLUGIN.format(name="acme.greet"))
    both = PLUGIN.format(name="acme.greet") + PLUGIN.format(name="acme.other").replace("def body", "def other")
    second = plugin(tmp_path, "second.py", both)
    registry = Registry.installed([first, second])
    assert registry.source("acme.greet") == first
    assert registry.source("acme.other") == second
    [found] = broken_in(registry, second)
    assert found.message == f"step type 'acme.greet' is declared twice; that of {first} stays"
    assert found.place == f"{second}:4"


def test_a_file_that_is_named_twice_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = plugin(tmp_path, "greet.py", PLUGIN.format(name="acme.greet"))
    registry = Registry.installed(["greet.py", file, "./greet.py"])
    assert "acme.greet" in registry
    assert not [held for held in registry.broken if "greet" in held.name]


def test_files_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        tmp_path.joinpath(folder).mkdir()
    source = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    source += "@dataclass\nclass Input:\n    {field}: int\n"
    source += (
        PLUGIN.replace("input):", "input: Input):")
        .replace('schema={{"type": "object"}}, ', "")
        .replace(", example={{}}", "")
    )
    files = [
        plugin(tmp_path / folder, "steps.py", source.format(name=f"acme.{folder}", field=folder))
        for folder in ("a", "b")
    ]
    registry = Registry.installed(files)
    assert [registry[f"acme.{folder}"].example for folder in ("a", "b")] == [{"a": 1}, {"b": 1}]


def test_a_step_type_can_be_loaded_again_from_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = plugin(tmp_path, "greet.py", PLUGIN.format(name="acme.greet"))
    registry = Registry.installed([file])
    assert registry.source("Core__Log") == "flo.steps.core"
    assert "core.log" in [held.name for held in load_source("flo.steps.core")]
    monkeypatch.chdir(Path(__file__).parent)  # what was named from another folder is found from any
    (again,) = load_source(registry.source("ACME.greet"))
    assert again.name == "acme.greet"
    assert again is not registry["acme.greet"]
    assert load_source("flo.steps.core:log") == [registry["core.log"]]
    with pytest.raises(NotFound):
        registry.source("acme.nothing")


def test_a_step_type_that_was_handed_over_is_found_where_it_was_declared() -> None:
    @step_type("test.here")
    def here(call: StepCall, input: JsonObject) -> JsonObject:
        return {}

    registry = Registry.installed().under([here])
    assert registry.source("test.here") == __file__
    assert registry.source("core.log") == "flo.steps.core"
    instead = Registry.installed().under([replace(here, name="core.log")])
    assert instead["core.log"].body is here.body
    assert instead.source("core.log") == registry.source("test.here")


def test_two_step_types_of_one_name_are_refused(tmp_path: Path) -> None:
    file = plugin(tmp_path, "log.py", PLUGIN.format(name="Core.Log"))
    registry = Registry.installed([file])
    assert registry["core.log"].summary != "Do nothing."
    assert "declared twice" in registry.broken[-1].message
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


def test_a_file_that_loads_itself_is_told_so_and_not_loaded_for_ever(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import flo\nflo.open('memory:', steps=[__file__], strict_plugins=True)\n", encoding="utf-8")
    (broken,) = Registry.installed([str(script)]).broken
    assert "loads itself while it is loaded" in broken.message
    assert "__main__" in broken.message
    assert len(broken.message) < 1_000
