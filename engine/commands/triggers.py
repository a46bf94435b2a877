"""``flo triggers``: the group; each of its commands is imported when it is asked for."""

from __future__ import annotations

from typing import Final

import click

from flo.engine.commands.group import CommandGroup, Deferred

COMMANDS: Final = {
    "list": Deferred("flo.engine.commands.triggers_shown:list_triggers", "List triggers, and when they fire next."),
    "show": Deferred("flo.engine.commands.triggers_shown:show", "Show a trigger, and what became of its slots."),
    "add": Deferred("flo.engine.commands.triggers_added:add", "Add a trigger to a stored workflow."),
    "enable": Deferred("flo.engine.commands.triggers_acts:enable", "Switch triggers on."),
    "disable": Deferred("flo.engine.commands.triggers_acts:disable", "Switch triggers off."),
    "remove": Deferred("flo.engine.commands.triggers_acts:remove", "Remove triggers that were added by hand."),
    "fire": Deferred("flo.engine.commands.triggers_acts:fire", "Fire a trigger now."),
    "next": Deferred("flo.engine.commands.triggers_times:next_times", "Print when a schedule fires next."),
    "explain": Deferred(
        "flo.engine.commands.triggers_times:explain", "Say a schedule in words, and what may surprise."
    ),
}


@click.group(cls=CommandGroup, deferred=COMMANDS)
def triggers() -> None:
    """Schedules, and what else starts workflows by itself."""
