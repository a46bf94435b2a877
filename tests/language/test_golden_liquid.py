"""How far our templates agree with Liquid, measured with golden-liquid: every case gives what it should, or stands in
``golden_differences.json`` with the reason why ours differs. ``-s`` prints the share by filter and tag."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from flo.engine.errors import ExpressionInvalid, TemplateFailed
from flo.engine.language.filters import FILTERS
from flo.engine.language.operators import written
from flo.engine.language.scope import Scope
from flo.engine.language.templates import compile_text

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "conformance" / "golden_liquid.json"
DIFFERENCES: dict[str, str] = json.loads(Path(__file__).with_name("golden_differences.json").read_text("utf-8"))

pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the golden-liquid cases do not lie beside the checkout")

Case = dict[str, Any]


def cases() -> list[Case]:
    loaded: dict[str, list[Case]] = json.loads(DATA.read_text("utf-8"))
    return loaded["tests"]


def given(case: Case) -> str | None:
    """What our templates make of a case: text, or None for an error."""
    try:
        value = compile_text(case["template"]).evaluate(Scope(case.get("data", {})), lambda missing: None)
    except (ExpressionInvalid, TemplateFailed):
        return None
    return written(value)


def agrees(case: Case) -> bool:
    wanted = [None] if case.get("invalid") else case.get("results", [case.get("result")])
    return given(case) in wanted


def groups(case: Case) -> Iterator[str]:
    """The filters and tags that a case is about."""
    for tag in case.get("tags", []):
        if tag.endswith((" filter", " tag")):
            yield tag
    if not case.get("tags"):
        yield case["name"].split(",")[0]


def test_every_case_agrees_or_is_explained() -> None:
    failing = {case["name"] for case in cases() if not agrees(case)}

    assert sorted(failing - DIFFERENCES.keys()) == []
    assert sorted(DIFFERENCES.keys() - failing) == [], "cases that are explained, but agree"


def test_no_two_cases_share_a_name() -> None:
    assert [name for name, count in Counter(case["name"] for case in cases()).items() if count > 1] == []


def shares(left_out: Collection[str] = ()) -> dict[str, tuple[int, int]]:
    """For each filter and tag: in how many cases ours agrees, of how many."""
    seen: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for case in cases():
        if case["name"] not in left_out:
            for group in ("everything", *groups(case)):
                seen[group] += 1
                right[group] += agrees(case)
    return {group: (right[group], seen[group]) for group in sorted(seen)}


def test_each_filter_of_ours_agrees_in_95_of_100_cases_that_no_difference_explains() -> None:
    ours = {group: share for group, share in shares(DIFFERENCES).items() if group.removesuffix(" filter") in FILTERS}

    assert len(ours) >= 35
    assert {group: share for group, share in ours.items() if share[0] < 0.95 * share[1]} == {}


def test_nearly_all_cases_agree_as_they_stand() -> None:
    found = shares()
    for group, (right, seen) in found.items():
        sys.stdout.write(f"{group:28} {right:4} of {seen:4} {right / seen:7.1%}\n")

    right, seen = found["everything"]
    assert right > 0.95 * seen
