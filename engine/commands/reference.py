"""The reference of the command, written from the command itself: ``docs/reference/command.md``."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from flo.engine.commands.tree import flo

_INTRODUCTION = """\
# The command

Generated from the command's own help; `flo COMMAND --help` shows the same. What holds for all of them, exit codes too,
stands in [the runtime](../runtime.md#the-command).
"""


def command_reference() -> str:
    """Write the reference of every command as Markdown. The same commands give the same text."""
    commands = list(_walk(flo, "flo"))
    overview = "".join(
        f"| [`{path}`](#{path.replace(' ', '-')}) | {_cell(command.get_short_help_str(200))} |\n"
        for path, command in commands
        if not isinstance(command, click.Group)
    )
    sections = "".join(_section(path, command) for path, command in commands if not isinstance(command, click.Group))
    return f"{_INTRODUCTION}\n| command | |\n|---|---|\n{overview}{sections}"


def _walk(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Every command under a group, with its path, in the order of the help."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _walk(command, f"{path} {name}")


def _section(path: str, command: click.Command) -> str:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    usage = " ".join([path, *(_argument(argument) for argument in arguments), "[OPTIONS]"])
    text = f"\n## {path}\n\n```\n{usage}\n```\n\n{inspect.cleandoc(command.help or '')}\n"
    if options:
        rows = "".join(f"| {_spelling(option)} | {_cell(_explained(option))} |\n" for option in options)
        text += f"\n| option | |\n|---|---|\n{rows}"
    return text


def _argument(argument: click.Argument) -> str:
    metavar = argument.metavar or (argument.name or "").upper()
    many = "..." if argument.nargs == -1 and "..." not in metavar else ""
    return f"{metavar}{many}" if argument.required else f"[{metavar}{many}]"


def _spelling(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.is_flag:
        return names
    choices = option.type.choices if isinstance(option.type, click.Choice) else ()
    metavar = (
        option.metavar or "|".join(map(str, choices)) or ("N" if _is_number(option) else (option.name or "").upper())
    )
    return f"{names} `{_cell(metavar)}`"


def _is_number(option: click.Option) -> bool:
    return isinstance(option.type, click.IntRange) or option.type is click.INT


def _explained(option: click.Option) -> str:
    shown = f" Default: {option.default}." if option.show_default and option.default is not None else ""
    return f"{option.help or ''}{shown}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
