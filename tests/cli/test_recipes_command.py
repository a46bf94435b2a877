"""``flo recipes``."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def shipped(name: str) -> str:
    return files("flo.recipes").joinpath(f"{name}.json").read_text(encoding="utf-8")


def test_list_names_each_recipe_and_says_what_it_does(flo) -> None:
    answer = flo("recipes", "list", "--json")
    held = {recipe["name"]: recipe["description"] for recipe in answer.json}
    assert {"producer", "async-queue-dispatcher", "stale-claim-recovery"} <= set(held)
    assert all(held.values())
    lines = flo("recipes", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(held)


def test_show_prints_the_recipe_as_it_ships(flo) -> None:
    assert flo("recipes", "show", "producer").out == shipped("producer")


def test_copy_takes_several_and_overwrites_nothing(flo, folder: Path) -> None:
    assert flo("recipes", "copy", "producer", "counter").code == 0
    assert folder.joinpath("producer.json").read_text(encoding="utf-8") == shipped("producer")
    folder.joinpath("producer.json").write_text("mine")
    folder.joinpath("counter.json").unlink()

    refused = flo("recipes", "copy", "producer", "counter")
    assert refused.code == 1
    assert "'producer.json' is there already; --force overwrites" in refused.err
    assert folder.joinpath("producer.json").read_text() == "mine"
    assert not folder.joinpath("counter.json").exists()

    assert flo("recipes", "copy", "producer", "--force").code == 0
    assert folder.joinpath("producer.json").read_text(encoding="utf-8") == shipped("producer")


def test_the_last_argument_may_be_a_folder_or_a_file(flo, folder: Path) -> None:
    assert flo("recipes", "copy", "producer", "counter", "made/here").code == 0
    assert {path.name for path in folder.joinpath("made/here").iterdir()} == {"producer.json", "counter.json"}
    assert flo("recipes", "copy", "producer", "other.json").code == 0
    assert folder.joinpath("other.json").read_text(encoding="utf-8") == shipped("producer")
    assert flo("recipes", "copy", "producer", "counter", "both.json").code == 1


def test_a_name_that_is_wrong_gets_the_nearest(flo) -> None:
    answer = flo("recipes", "show", "prodcer")
    assert (answer.code, answer.err) == (1, "error: no recipe 'prodcer'; did you mean 'producer'?\n")


def test_a_place_that_cannot_be_written_is_an_error(flo, folder: Path) -> None:
    folder.joinpath("file").write_text("")
    answer = flo("recipes", "copy", "producer", "file/inside")
    assert answer.code == 1
    assert "cannot be written" in answer.err
