"""The command's entry: one command line in, its exit code out, and what an error ends with."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import click

from flo.engine.commands.garbage import collect_late
from flo.engine.commands.output import ReaderGone, error, flush, note, speak_utf8
from flo.engine.commands.tree import flo
from flo.engine.errors import ExpressionInvalid, FloError, StepFailed

BROKEN_PIPE: Final = 141
"""What a shell reports of a program whose reader went away: 128 and the number of SIGPIPE."""

INTERRUPTED: Final = 130


def main() -> None:
    """The program."""
    collect_late()
    speak_utf8()
    code = call(sys.argv[1:])
    with suppress(ReaderGone, FloError):  # what an error left in the buffer
        flush()
    if code > 100:  # a step that was given up may still hang in its thread: it must not keep the process
        os._exit(code)
    gc.freeze()  # or Python looks through all that was imported once more before it ends, which takes a while
    sys.exit(code)


def call(arguments: Sequence[str]) -> int:
    """Run one command line; gives its exit code. What went wrong stands on standard error, in words."""
    try:
        code = flo.main(list(arguments), prog_name="flo", standalone_mode=False)
        flush()
    except ReaderGone:
        return BROKEN_PIPE
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as bare:
        note(bare.format_message())
        return 1
    except click.UsageError as usage:
        error(_worded(usage))
        return 1
    except FloError as failed:
        error(str(failed))
        # a run that fails is a result; a step's error that comes up to here is one of what the command was given
        return FloError.exit_code if isinstance(failed, StepFailed | ExpressionInvalid) else failed.exit_code
    except Exception as bug:
        error(f"this is a bug in flo: {type(bug).__name__}: {bug}")
        if os.environ.get("FLO_DEBUG"):
            traceback.print_exc()
        else:
            error("FLO_DEBUG=1 in the environment shows where")
        return 1
    return code if isinstance(code, int) else 0


def _worded(usage: click.UsageError) -> str:
    """click's message in our words, and where help is."""
    message = usage.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    path = usage.ctx.command_path if usage.ctx else "flo"
    return f"{message}; '{path} --help' explains"


if __name__ == "__main__":
    main()
