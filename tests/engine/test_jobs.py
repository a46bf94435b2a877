"""Owners have names that say where they are."""

from __future__ import annotations

import os
import socket

from flo.engine.jobs import owner_id


def test_an_owner_is_named_after_its_host_and_its_process_and_never_as_another_one() -> None:
    first, second = owner_id(), owner_id()
    assert first.startswith(f"{socket.gethostname()}-{os.getpid()}-")
    assert first != second
