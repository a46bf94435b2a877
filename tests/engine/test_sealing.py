"""What is sealed opens with its key, at its place, and nowhere else."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from flo.engine.environments.keyring import Keyring
from flo.engine.errors import InputInvalid
from flo.engine.sealing import KEY_VARIABLE, Keys, SealBroken, find_keys, keep_new_key, new_key
from flo.engine.values import Json

PLACE = "environment prod KEY"
VALUE = "hunter2 'and' \"more\""


def deep(levels: int) -> Json:
    value: Json = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [VALUE, "", "é🙂", {"a": [1.0, None, True]}, 2**200, deep(200)], ids=repr)
def test_what_was_sealed_opens_as_it_was(value: Json) -> None:
    keys = Keys([new_key()], "test")
    opened = keys.open(keys.seal(value, about=PLACE), about=PLACE)
    assert (opened, repr(opened)) == (value, repr(value))


def test_the_first_key_seals_and_each_of_them_opens() -> None:
    old, new = new_key(), new_key()
    sealed = Keys([old], "test").seal(VALUE, about=PLACE)
    both = Keys([new, old], "test")
    assert both.open(sealed, about=PLACE) == VALUE
    assert not both.is_current(sealed)
    anew = both.seal(VALUE, about=PLACE)
    assert both.is_current(anew)
    assert Keys([new], "test").open(anew, about=PLACE) == VALUE


def broken(sealed: str) -> dict[str, tuple[str, str]]:
    """What is wrong, and what is opened then for which place."""
    middle = len(sealed) // 2
    flipped = sealed[:middle] + ("A" if sealed[middle] != "A" else "B") + sealed[middle + 1 :]
    return {
        "another place": (sealed, "environment prod OTHER"),
        "changed": (flipped, PLACE),
        "cut": (sealed[:-5], PLACE),
        "empty": ("", PLACE),
        "no token": ("é" * 50, PLACE),
    }


@pytest.mark.parametrize("kind", [*broken("x" * 9), "another key", "another writer"])
def test_what_cannot_be_opened_is_told_by_its_place_and_never_by_its_value(kind: str) -> None:
    from cryptography.fernet import Fernet

    key = new_key()
    keys = Keys([key], "test")
    sealed, place = keys.seal(VALUE, about=PLACE), PLACE
    if kind == "another key":
        keys = Keys([new_key()], "test")
    elif kind == "another writer":
        sealed = Fernet(key).encrypt(VALUE.encode()).decode()
    else:
        sealed, place = broken(sealed)[kind]
    with pytest.raises(SealBroken, match=rf"^{place} cannot be opened: ") as raised:
        keys.open(sealed, about=place)
    assert "hunter2" not in str(raised.value)
    assert raised.value.what == place
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("key", ["short", "a" * 43, "ä" * 44, " ", "=" * 44])
def test_what_is_no_master_key_is_refused_without_being_shown(key: str) -> None:
    with pytest.raises(InputInvalid, match=r"^FLO_MASTER_KEY: .*'flo env key' prints a new one$") as raised:
        Keys([key], KEY_VARIABLE)
    assert key == " " or key not in str(raised.value)


def test_keys_of_the_process_come_before_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "key"
    in_file, first, second = new_key(), new_key(), new_key()
    file.write_text(f"{in_file}\n")
    for process, sealing_key in (
        ({}, in_file),
        ({KEY_VARIABLE: ""}, in_file),
        ({KEY_VARIABLE: first}, first),
        ({KEY_VARIABLE: f" {first} , {second},"}, first),
        ({KEY_VARIABLE: f"{second},{first}"}, second),
    ):
        keys = find_keys(process, file)
        assert keys is not None
        assert Keys([sealing_key], "test").is_current(keys.seal(1, about="x"))
    assert find_keys({}, tmp_path / "none") is None
    assert find_keys({}, None) is None


def test_a_key_file_is_its_owners_alone_and_nobody_replaces_it(tmp_path: Path) -> None:
    file = tmp_path / "flo.sqlite-key"
    before = os.umask(0)
    try:
        keys = keep_new_key(file)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    sealed = keys.seal(VALUE, about=PLACE)
    assert keep_new_key(file).open(sealed, about=PLACE) == VALUE
    assert file.read_text() == text
    assert [held.name for held in tmp_path.iterdir()] == [file.name]


def test_of_several_that_make_a_key_at_once_all_get_the_same(tmp_path: Path) -> None:
    file = tmp_path / "key"
    begin, sealed = threading.Barrier(8), []

    def make() -> None:
        begin.wait()
        keys = Keyring({}, file).for_sealing(lambda: bool(sealed))
        sealed.append(keys.seal(VALUE, about=PLACE))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    keys = find_keys({}, file)
    assert keys is not None
    assert [keys.open(each, about=PLACE) for each in sealed] == [VALUE] * 8


@pytest.mark.parametrize("content", [b"", b"nonsense\n", b"\xff\xfe"])
def test_a_key_file_that_holds_no_key_is_named(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(InputInvalid, match=r"master key") as raised:
        find_keys({}, file)
    assert raised.value.source == str(file)
    assert "nonsense" not in str(raised.value)


def test_a_folder_that_takes_no_key_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputInvalid, match="a master key cannot be kept there: No such file or directory"):
        keep_new_key(tmp_path / "gone" / "key")


def test_a_key_that_was_lost_is_not_replaced_by_another(tmp_path: Path) -> None:
    ring = Keyring({}, tmp_path / "key")
    with pytest.raises(SealBroken, match="FLO_MASTER_KEY is not set, and there is no key file"):
        ring.for_sealing(lambda: True)
    assert list(tmp_path.iterdir()) == []
    ring.for_sealing(lambda: False)
    assert ring.find() is not None


def test_a_store_that_keeps_no_key_asks_for_one() -> None:
    with pytest.raises(InputInvalid, match=r"^FLO_MASTER_KEY: it is not set, .*'flo env key' prints a new one"):
        Keyring({}).for_sealing(lambda: False)
    in_memory = Keyring({}, in_memory=True)
    assert in_memory.find() is None
    sealed = in_memory.for_sealing(lambda: False).seal(VALUE, about=PLACE)
    found = in_memory.find()
    assert found is not None
    assert found.open(sealed, about=PLACE) == VALUE


def test_a_key_file_is_read_anew_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "key"
    ring = Keyring({}, file)
    assert ring.find() is None
    old = keep_new_key(file)
    first = ring.find()
    assert first is not None
    assert ring.find() is first
    new = new_key()
    file.write_text(f"{new}\n{file.read_text()}")
    second = ring.find()
    assert second is not None
    assert second.open(old.seal(VALUE, about=PLACE), about=PLACE) == VALUE
    assert Keys([new], "test").is_current(second.seal(VALUE, about=PLACE))


def test_a_key_that_others_may_read_is_told_of(tmp_path: Path) -> None:
    file = tmp_path / "key"
    ring = Keyring({}, file)
    assert ring.warning() is None
    keep_new_key(file)
    assert ring.warning() is None
    file.chmod(0o640)
    assert ring.warning() == f"others on this machine may read the master key: chmod 600 {file}"
    assert Keyring({KEY_VARIABLE: new_key()}, file).warning() is None


def test_nothing_of_cryptography_is_imported_before_something_is_sealed() -> None:
    import subprocess
    import sys

    program = "import sys, flo.engine.sealing, flo.engine.opening; print('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
