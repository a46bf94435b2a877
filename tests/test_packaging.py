"""What pyproject.toml says is what lies on disk, so that a wheel never silently leaves something out."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("engine", "steps", "recipes", "schemas")
DATA = {".json", ".sql", ".typed"}

SETTINGS: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS: dict[str, Any] = SETTINGS["tool"]["setuptools"]


def folder_of(package: str) -> Path:
    return ROOT.joinpath(*package.split(".")[1:])


def test_every_package_on_disk_is_declared() -> None:
    on_disk = {"flo"} | {
        "flo." + ".".join(init.parent.relative_to(ROOT).parts)
        for folder in SHIPPED
        for init in (ROOT / folder).rglob("__init__.py")
    }
    assert set(SETUPTOOLS["packages"]) == on_disk


def test_every_module_lies_in_a_declared_package() -> None:
    declared = {folder_of(package) for package in SETUPTOOLS["packages"]}
    astray = [path for folder in SHIPPED for path in (ROOT / folder).rglob("*.py") if path.parent not in declared]
    assert not astray


def test_every_data_file_is_shipped() -> None:
    shipped = {
        path
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for path in folder_of(package).glob(pattern)
    }
    on_disk = {path for folder in SHIPPED for path in (ROOT / folder).rglob("*") if path.suffix in DATA}
    assert on_disk <= shipped
    assert ROOT / "py.typed" in shipped
    assert any(path.parent.name == "recipes" for path in shipped)


def test_every_pattern_of_data_files_finds_something() -> None:
    empty = [
        (package, pattern)
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        if not any(folder_of(package).glob(pattern))
    ]
    assert not empty


def test_every_entry_point_names_a_module_on_disk() -> None:
    for target in SETTINGS["project"]["entry-points"]["flo.steps"].values():
        assert folder_of(target).with_suffix(".py").is_file(), target
