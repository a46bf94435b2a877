"""What a workflow may say but probably does not mean: warnings."""

from __future__ import annotations

from collections.abc import Mapping

from flo.engine.checking.problems import Report
from flo.engine.checking.tree import Node, Siblings, every
from flo.engine.jobs import MAX_DEPTH
from flo.engine.values import Json, JsonObject


def advise(root: Siblings, document: JsonObject, report: Report) -> None:
    """Warn about writes to ``$vars`` from iterations that run at once, about claimed rows changed without a guard, and
    about a workflow that calls itself."""
    nodes = list(every(root))
    claimed = {_table(node) for node in nodes if node.type.name == "data-store.atomic-claim"} - {None}
    for node in nodes:
        if node.type.name == "core.set-variable":
            _shared_variables(node, report)
        elif node.type.name == "core.sub-workflow":
            _own_name(node, document, report)
        elif node.type.name == "data-store.atomic-update" and _table(node) in claimed and not _guarded(node):
            report.warn(
                (*node.place, "input"),
                "this workflow claims rows of the table, and the update has no guard on 'claimedBy': it may overwrite"
                " a row that another execution has claimed since; add a where on 'claimedBy' equals"
                " '<< $execution.id >>'",
            )


def _table(node: Node) -> str | None:
    """The table as it is written; the same template gives the same one."""
    name = node.input.get("tableName")
    return name if isinstance(name, str) else None


def _guarded(node: Node) -> bool:
    return "claimedBy" in _fields(node.input.get("where"))


def _fields(where: Json) -> set[Json]:
    if isinstance(where, list):
        return {name for held in where for name in _fields(held)}
    if isinstance(where, Mapping):
        own = {where["field"]} if isinstance(where.get("field"), str) else set()
        return own | {name for group in ("all", "any") for name in _fields(where.get(group))}
    return set()


def _own_name(node: Node, document: JsonObject, report: Report) -> None:
    """A call by the document's own name or id, whichever way the step spells it."""
    own = [name for name in (document.get("name"), document.get("id")) if isinstance(name, str)]
    for field in ("workflowTemplateName", "workflowTemplateId"):
        if node.input.get(field) in own:
            what = f"this workflow calls itself, and calls nest {MAX_DEPTH} deep at most: let a condition end them"
            report.warn((*node.place, "input", field), what)


def _shared_variables(node: Node, report: Report) -> None:
    for _, siblings in node.around():
        owner = siblings.owner
        if owner is None:
            return
        concurrency = owner.input.get("concurrency", 1)
        if (siblings.loop and concurrency != 1) or siblings.parallel:
            what = f"steps of {owner.id!r} run at once and write to the same '$vars': the last one stands"
            report.warn((*node.place, "input"), what)
            return
