"""``flo validate``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from flo.engine import app
from flo.engine.commands.options import json_option, steps_option, store_option
from flo.engine.commands.output import note, print_json
from flo.engine.commands.sources import check_file, find_stored, names_file
from flo.engine.errors import Problem, WorkflowInvalid
from flo.engine.values import JsonObject


@click.command(short_help="Check a workflow, and tell every problem at once.")
@click.argument("workflows", metavar="FILE|NAME|-", nargs=-1, required=True)
@store_option
@steps_option
@json_option
def validate(workflows: tuple[str, ...], store: str | None, steps: tuple[str, ...], as_json: bool) -> int:
    """Check workflows, and tell every problem at once, in the order of the document. Nothing runs, and only a NAME
    opens the store.

    Ends with 3 where a workflow has an error; warnings end with 0. With --json one object is printed, of several
    workflows an array of them: source, valid, problems: [{place, line, column, stepId, severity, message}].
    """
    only_files = all(names_file(name) for name in workflows)
    with app.open("memory:" if only_files else store, steps=steps) as engine:
        checked = [_problems(engine, name) for name in workflows]
    if as_json:
        answers = [_as_json(source, problems) for source, problems in checked]
        print_json(answers[0] if len(answers) == 1 else answers)
    else:
        for source, problems in checked:
            _tell(source, problems)
    return 3 if any(_has_errors(problems) for _, problems in checked) else 0


def _problems(engine: app.Flo, name: str) -> tuple[str, Sequence[Problem]]:
    """The source of a workflow, and everything that is wrong with it or probably not meant."""
    try:
        if names_file(name):
            checked = check_file(engine, name)
        else:
            checked = engine.check(engine.stored(find_stored(engine, name)).document, f"workflow {name!r}")
    except WorkflowInvalid as invalid:
        return invalid.source, invalid.problems
    return checked.workflow.source, checked.warnings


def _has_errors(problems: Sequence[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def _tell(source: str, problems: Sequence[Problem]) -> None:
    for problem in problems:
        note(f"{'warning: ' if problem.severity == 'warning' else ''}{problem}")
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    counts = [
        f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((errors, "error"), (warnings, "warning"))
    ]
    found = ", ".join(text for text in counts if not text.startswith("0 "))
    note(f"{source}: {found if errors else f'ok, {found}' if found else 'ok'}")


def _as_json(source: str, problems: Sequence[Problem]) -> JsonObject:
    return {
        "source": source,
        "valid": not _has_errors(problems),
        "problems": [
            {
                "place": problem.place,
                "line": problem.line,
                "column": problem.column,
                "stepId": problem.step_id,
                "severity": problem.severity,
                "message": problem.message,
            }
            for problem in problems
        ],
    }
