"""What goes to a process of a step, and comes from it."""

from __future__ import annotations

from flo.engine.isolation.frames import packed, unpacked
from flo.engine.secrecy import Secret
from flo.engine.values import Json, LazyList


def test_lists_that_lie_in_the_store_are_read_for_the_process() -> None:
    class Stored(LazyList):
        def __len__(self) -> int:
            return 2

        def item(self, index: int) -> Json:
            held: list[Json] = [{"index": 0}, Secret("x")]
            return held[index]

    received = unpacked(packed({"items": Stored()}))
    assert received == {"items": [{"index": 0}, "x"]}
    assert [type(held) for held in (received["items"], received["items"][1])] == [list, Secret]
