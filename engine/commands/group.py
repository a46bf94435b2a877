"""A group of commands that imports one when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from flo.engine.errors import did_you_mean
from flo.engine.frozen import frozen


@frozen
class Deferred:
    """A command that is not imported yet: ``module:attribute``, and what it does in a line."""

    target: str
    summary: str

    def load(self) -> click.Command:
        """Import it."""
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class CommandGroup(click.Group):
    """Lists its commands in their order, without importing those that are deferred; names the nearest for a wrong
    one."""

    def __init__(self, *arguments: Any, deferred: Mapping[str, Deferred] | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.deferred = deferred or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.deferred, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        deferred = self.deferred.get(cmd_name)
        return deferred.load() if deferred else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}{did_you_mean(args[0], known)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.summary(name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def summary(self, name: str) -> str:
        """What a command does, in a line."""
        if name in self.deferred:
            return self.deferred[name].summary
        return self.commands[name].get_short_help_str(limit=100)
