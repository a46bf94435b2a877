"""Workflows by name, with their versions: the same on every adapter."""

from __future__ import annotations

import hashlib
import threading

import pytest

from flo.engine.errors import InputInvalid
from flo.engine.stores.store import Store

ONE, TWO = '{"steps": [], "n": 1.0}', '{"steps": [], "n": 2}'


def test_a_workflow_comes_back_as_it_was_added(store: Store) -> None:
    before = store.data.now()
    saved = store.workflows.save("greet", ONE)
    assert (saved.name, saved.version, saved.document) == ("greet", 1, ONE)
    assert saved.digest == hashlib.sha256(ONE.encode()).hexdigest()
    assert before <= saved.created_at <= store.data.now()
    assert store.workflows.get("greet") == saved
    assert store.workflows.get(saved.id) == saved


def test_a_name_that_nothing_has_finds_nothing(store: Store) -> None:
    store.workflows.save("greet", ONE)
    assert store.workflows.get("other") is None
    assert store.workflows.get("greet", 2) is None


def test_the_same_name_again_makes_a_new_version(store: Store) -> None:
    first, second = store.workflows.save("greet", ONE), store.workflows.save("greet", TWO)
    assert (second.id, second.version) == (first.id, 2)
    assert store.workflows.get("greet") == second
    assert store.workflows.get("greet", 1) == first


def test_the_newest_unchanged_makes_no_version(store: Store) -> None:
    first = store.workflows.save("greet", ONE)
    assert store.workflows.save("greet", ONE) == first
    store.workflows.save("greet", TWO)
    back = store.workflows.save("greet", ONE)
    assert (back.version, back.document) == (3, ONE)


def test_workflows_are_listed_by_name_each_with_its_newest_version(store: Store) -> None:
    assert store.workflows.list() == []
    for name, document in (("b", ONE), ("a", ONE), ("b", TWO)):
        store.workflows.save(name, document)
    assert [(found.name, found.version) for found in store.workflows.list()] == [("a", 1), ("b", 2)]


def test_a_pinned_id_is_kept_through_a_rename(store: Store) -> None:
    first = store.workflows.save("greet", ONE, pinned_id="flow-1")
    assert first.id == "flow-1"
    renamed = store.workflows.save("welcome", TWO, pinned_id="flow-1")
    assert (renamed.id, renamed.name, renamed.version) == ("flow-1", "welcome", 2)
    assert store.workflows.get("greet") is None
    assert store.workflows.get("flow-1") == renamed
    assert [found.name for found in store.workflows.list()] == ["welcome"]


def test_a_rename_alone_makes_no_version(store: Store) -> None:
    store.workflows.save("greet", ONE, pinned_id="flow-1")
    assert store.workflows.save("welcome", ONE, pinned_id="flow-1").version == 1


def test_a_workflow_gets_the_id_that_its_document_pins_later(store: Store) -> None:
    store.workflows.save("greet", ONE)
    pinned = store.workflows.save("greet", TWO, pinned_id="flow-1")
    assert (pinned.id, pinned.version) == ("flow-1", 2)
    assert store.workflows.get("greet", 1) is not None


def test_an_id_and_a_name_of_two_workflows_are_a_clear_error(store: Store) -> None:
    store.workflows.save("one", ONE, pinned_id="flow-1")
    store.workflows.save("two", TWO, pinned_id="flow-2")
    with pytest.raises(InputInvalid, match="id 'flow-1' belongs to 'one'"):
        store.workflows.save("two", ONE, pinned_id="flow-1")
    assert [(found.name, found.version) for found in store.workflows.list()] == [("one", 1), ("two", 1)]


@pytest.mark.parametrize("pinned_id", [None, "flow-1"])
def test_concurrent_saves_give_distinct_versions(store: Store, pinned_id: str | None) -> None:
    start, versions = threading.Barrier(6), []

    def save(number: int) -> None:
        start.wait()
        versions.append(store.workflows.save("greet", f'{{"steps": [], "n": {number}}}', pinned_id=pinned_id).version)

    threads = [threading.Thread(target=save, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(versions) == [1, 2, 3, 4, 5, 6]
