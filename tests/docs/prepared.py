"""What pages take for granted: files of the reader's own, and work that is under way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from flo.engine import app
from flo.engine.values import JsonObject

from .pages import ROOT


def _write(name: str, *steps: Mapping[str, Any]) -> None:
    Path(f"{name}.json").write_text(json.dumps({"name": name, "steps": steps}), encoding="utf-8")


def _resize() -> None:
    """A workflow called resize, as somebody who has images would have it."""
    _write("resize", {"stepId": "do", "stepType": "core.log", "input": {"message": "<< initial.image >>"}})


def _readme() -> None:
    """The clone that the reader has, a workflow of theirs, a job that waits for a decision, and one that failed."""
    Path("recipes").symlink_to(ROOT / "recipes")
    _resize()
    _waiting()


def _waiting() -> None:
    """A job that waits for a decision and for a signal."""
    ask = {"stepId": "ask", "stepType": "core.approval", "input": {"message": "ok?"}}
    hear = {"stepId": "hear", "stepType": "core.wait-for-signal", "input": {"name": "paid"}, "dependsOn": []}
    with app.open() as engine:
        engine.enqueue({"name": "asks", "steps": [ask, hear]})
        engine.worker().run(threading.Event(), drain=True)


def _runtime() -> None:
    _resize()
    with app.open() as engine:
        engine.add(Path("resize.json"))
    _waiting()


def _environments() -> None:
    """Files that a reader has, and programs' variables."""
    Path("server.pem").write_text("-----BEGIN CERTIFICATE-----\n", encoding="utf-8")
    Path("stripe.json").write_text('{"baseUrl": "https://api.stripe.com/v1"}', encoding="utf-8")


ASKED: Final = "a value that somebody types\n"
"""What is typed where a command asks."""

STAND_INS: Final[Mapping[str, str]] = {"vault read -field=key secret/api": "a key from a vault\n"}
"""What programs that are not here would print."""

PREPARED: Final[Mapping[str, Callable[[], None]]] = {
    "README.md": _readme,
    "docs/runtime.md": _runtime,
    "docs/environments.md": _environments,
}

MISTAKES: Final[Mapping[str, JsonObject]] = {
    "docs/authors.md: steps[0].input.items[0].nmae in step 'order': unknown field 'nmae'; did you mean 'name'?": {
        "steps": [
            {
                "stepId": "order",
                "stepType": "acme.order",
                "input": {"items": [{"nmae": "nut"}], "due": "2026-01-31T09:00:00Z"},
            }
        ]
    },
}
"""Documents of which pages show only what is wrong with them, by page and first line."""
