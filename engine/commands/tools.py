"""``flo logic`` and ``flo render``: try a rule or a template."""

from __future__ import annotations

import click

from flo.engine.commands.options import json_anyway_option
from flo.engine.commands.output import print_json, warn
from flo.engine.commands.sources import json_argument, object_argument, one_stdin, text_argument

data_option = click.option("--data", metavar="JSON|@FILE|-", help="What it is applied to.")


@click.command(short_help="Print what a JSONLogic rule gives.")
@click.argument("rule", metavar="RULE|@FILE|-")
@data_option
@json_anyway_option
def logic(rule: str, data: str | None) -> None:
    """Print what a JSONLogic rule gives, applied to data: flo logic '{"var": "a"}' --data '{"a": 1}'."""
    from flo.engine.language.logic import apply

    one_stdin(rule, data)
    held = None if data is None else json_argument(data, "--data")
    print_json(apply(json_argument(rule, "the rule"), held))


@click.command(short_help="Print what a template gives.")
@click.argument("template", metavar="TEMPLATE|@FILE|-")
@data_option
@json_anyway_option
def render(template: str, data: str | None) -> None:
    """Print what a template gives, as JSON: flo render '<< a | upcase >>' --data '{"a": "x"}'.

    The keys of the data, which is an object, are the names that the template sees, besides $util.
    """
    from flo.engine.clock import SystemClock
    from flo.engine.language.scope import Missing, Scope
    from flo.engine.language.templates import compile_template
    from flo.engine.run import utilities

    one_stdin(template, data)
    text = text_argument(template, "the template")
    scope = Scope({"$util": utilities(SystemClock()), **object_argument(data, "--data")})

    def tell(missing: Missing) -> None:
        warn(f"{missing.path!r} is missing, null is used{missing.hint}")

    print_json(compile_template(text).resolve(scope, tell))
