"""The ground on which contestants meet: fresh databases, a team of processes on each, and rounds by turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

from benchmarks.contestants import ContestantFailed, Team, team
from benchmarks.databases import Server
from benchmarks.lines import Against, Line, compared
from benchmarks.measuring import Sample, Series, Way, by_turns
from benchmarks.peers import DISTRIBUTIONS
from benchmarks.sizes import Sizes

OWN: Final = "flo"

Work = Callable[[Team, int], Sample]
"""Does a number of operations with a team."""


@dataclass(frozen=True, slots=True)
class Ground:
    """Where and how much is measured, and which peers are there."""

    server: Server
    sizes: Sizes
    peers: Mapping[str, str]

    @contextmanager
    def team(self, module: str, store: str, size: int = 1) -> Iterator[Team]:
        """Processes of one contestant on a fresh database. Raises ``ContestantFailed``."""
        with self.server.fresh(store) as url, team(module, url, self.server.folder, size) as started:
            yield started

    @contextmanager
    def meeting(
        self, store: str, modules: Mapping[str, str], size: int = 1, *, own_size: int | None = None
    ) -> Iterator[Meeting]:
        """A team for flo and each of the others, by name, without the peers that are not installed. Who cannot begin is
        noted with the reason."""
        with ExitStack() as stack:
            meeting = Meeting(self, store)
            for name, module in modules.items():
                if name in DISTRIBUTIONS and name not in self.peers:
                    continue
                try:
                    members = own_size or size if name == OWN else size
                    meeting.teams[name] = stack.enter_context(self.team(module, store, members))
                except ContestantFailed as failure:
                    meeting.failed[name] = Series(failure=str(failure))
            yield meeting


@dataclass(frozen=True, slots=True)
class Meeting:
    """Those who are compared, each with a database of its own."""

    ground: Ground
    store: str
    teams: dict[str, Team] = field(default_factory=dict)
    failed: dict[str, Series] = field(default_factory=dict)

    def lines(self, what: str, others: Sequence[Against], work: Work, operations: int, rounds: int) -> Iterator[Line]:
        """Measure, and give a line for each of the others that are there."""
        series = self.series(work, operations, rounds)
        present = [(other, series[other.name]) for other in others if other.name in series]
        yield from compared(what, self.store, series[OWN], present)

    def series(self, work: Work, operations: int, rounds: int) -> Mapping[str, Series]:
        """Measure everybody, by turns."""
        ways = [Way(name, _bound(work, team)) for name, team in self.teams.items()]
        return {**self.failed, **by_turns(ways, operations, rounds, patience=self.ground.sizes.patience)}


def _bound(work: Work, team: Team) -> Callable[[int], Sample]:
    return lambda operations: work(team, operations)
