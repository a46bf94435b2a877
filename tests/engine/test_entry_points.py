"""Entry points are the same that importlib.metadata finds, and folders are enough to find them in."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from flo.engine.entry_points import entry_points
from flo.engine.errors import FloError

GROUP = "acme.things"
OFFER = f"[{GROUP}]\none = acme_one\n"


def distribution(folder: Path, name: str, offered: str | bytes | None, file: str = "entry_points.txt") -> Path:
    """Put the metadata of a distribution into a folder."""
    directory = folder / name
    directory.mkdir(parents=True)
    directory.joinpath("METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.partition('-')[0]}\nVersion: 1.0\n")
    if offered is not None:
        directory.joinpath(file).write_bytes(offered if isinstance(offered, bytes) else offered.encode())
    return folder


def by_the_library() -> list[str]:
    return [entry.value for entry in metadata.entry_points(group=GROUP)]


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is looked through, without what is installed."""
    monkeypatch.setattr(sys, "path", [])
    return sys.path


@pytest.fixture
def not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library must not be asked."""

    def asked(**_: Any) -> None:
        raise AssertionError("importlib.metadata was asked")

    monkeypatch.setattr(metadata, "entry_points", asked)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (OFFER, ["acme_one"]),
        (None, []),
        ("", []),
        ("[console_scripts]\nacme.things = acme_one:main\n", []),
        (f"[{GROUP}]\n", []),
        (f"[{GROUP}]\r\n b = acme_two : made [x] \r\n\r\n# c = acme_three", ["acme_two : made [x]"]),
        (f"a = before_any\n[{GROUP}.more]\na = acme_more\n[{GROUP}]\na = acme_one\n[other]\nb = c\n", ["acme_one"]),
        (f"[{GROUP}]\na = acme_one\n[other]\nb = c\n[{GROUP}]\na = acme_two\n", ["acme_one", "acme_two"]),
        (f"[{GROUP}]\na =\nb = not/a module=at all\n", ["", "not/a module=at all"]),
        (f"\ufeff[{GROUP}]\na = acme_one\n", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["acme-1.0.dist-info", "acme.egg-info", "acme"])
def test_a_file_says_what_the_library_reads_in_it(
    path: list[str], tmp_path: Path, name: str, text: str | None, values: list[str], request: pytest.FixtureRequest
) -> None:
    path.append(str(distribution(tmp_path, name, text)))
    expected = values if name != "acme" else []
    assert by_the_library() == expected
    request.getfixturevalue("not_asked")
    assert entry_points(GROUP) == expected


def test_folders_are_looked_through_in_order_and_the_first_of_a_name_hides_the_others(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    here = distribution(tmp_path / "here", "zeta-1.0.dist-info", f"[{GROUP}]\na = from_here\n")
    first = distribution(tmp_path / "first", "Acme._Greet-2.0.dist-info", None)
    last = distribution(tmp_path / "last", "acme_greet-1.0.dist-info", f"[{GROUP}]\na = hidden\n")
    distribution(last, "acme-1.0.dist-info", f"[{GROUP}]\na = from_last\n")
    distribution(last, "zeta.egg-info", f"[{GROUP}]\na = hidden_too\n")
    last.joinpath("flat.egg-info").write_text(f"[{GROUP}]\na = no_folder\n")
    monkeypatch.chdir(here)
    path += ["", str(first), str(tmp_path / "nowhere"), str(last), str(last), str(here)]
    assert by_the_library() == ["from_here", "from_last"]
    request.getfixturevalue("not_asked")
    assert entry_points(GROUP) == ["from_here", "from_last"]


def test_archives_eggs_and_odd_names_are_found_too(path: list[str], tmp_path: Path) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("zipped-1.0.dist-info/METADATA", "Name: zipped\n")
        opened.writestr("zipped-1.0.dist-info/entry_points.txt", f"[{GROUP}]\na = zipped\n")
    egg = distribution(tmp_path / "laid-1.0-py3.egg", "EGG-INFO", f"[{GROUP}]\na = laid\n")
    egg.joinpath("EGG-INFO", "PKG-INFO").write_text("Name: laid\n")
    odd = distribution(tmp_path / "odd", "Odd-1.0.DIST-INFO", f"[{GROUP}]\na = odd\n")
    for folder in (archive, egg, odd):
        path.append(str(folder))
        assert entry_points(GROUP) == by_the_library()
    assert entry_points(GROUP) == ["zipped", "laid", "odd"]


def test_what_the_finder_of_another_program_has_is_found_too(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = distribution(tmp_path, "acme-1.0.dist-info", OFFER) / "acme-1.0.dist-info"

    class Finder:
        @staticmethod
        def find_spec(*_: Any) -> None:
            return None

        @staticmethod
        def find_distributions(context: Any = None) -> list[metadata.Distribution]:
            return [metadata.Distribution.at(elsewhere)]

    assert entry_points(GROUP) == []
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert entry_points(GROUP) == by_the_library() == ["acme_one"]


def test_a_file_of_others_that_cannot_be_read_hides_nothing(path: list[str], tmp_path: Path, not_asked: None) -> None:
    distribution(tmp_path, "latin-1.0.dist-info", b"[console_scripts]\ncaf\xe9 = a:b\n")
    distribution(tmp_path, "without-1.0.dist-info", "[console_scripts]\nnothing\n")
    tmp_path.joinpath("folder-1.0.dist-info", "entry_points.txt").mkdir(parents=True)
    path.append(str(distribution(tmp_path, "acme-1.0.dist-info", OFFER)))
    assert entry_points(GROUP) == ["acme_one"]


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (f"[{GROUP}]\nnothing\n".encode(), TypeError),
        (f"[{GROUP}]\ncaf\xe9 = acme_one\n".encode("latin-1"), UnicodeDecodeError),
    ],
)
def test_a_file_of_the_group_that_is_no_proper_one_is_refused_with_words(
    path: list[str], tmp_path: Path, text: bytes, refusal: type[Exception]
) -> None:
    path.append(str(distribution(tmp_path, "acme-1.0.dist-info", text)))
    with pytest.raises(refusal):
        by_the_library()
    with pytest.raises(FloError, match=f"an entry_points.txt among .* is damaged: {refusal.__name__}"):
        entry_points(GROUP)


def test_what_is_installed_here_is_found_without_the_library(not_asked: None) -> None:
    assert "flo.steps.core" in entry_points("flo.steps")
