"""The reference that is written from the command."""

from __future__ import annotations

from flo.engine.commands.reference import command_reference


def test_the_reference_has_every_command_and_option() -> None:
    text = command_reference()
    assert "\n## flo run\n\n```\nflo run FILE|NAME|- [OPTIONS]\n```\n" in text
    assert "\n## flo recipes copy\n" in text
    assert "| `--timeout` `SECONDS` | " in text
    assert "| `--fail-on-errors`, `--fail-on-item-errors` | " in text
    assert "| `--filter-mode` `all\\|any` | " in text


def test_the_reference_is_the_same_each_time() -> None:
    assert command_reference() == command_reference()
