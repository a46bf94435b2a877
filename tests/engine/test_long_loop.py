"""What a long loop needs: memory for its items and for the iterations that run, not for those that ran."""

import json
import os
import subprocess
import sys
from pathlib import Path

LONG_LOOP = Path(__file__).with_name("long_loop.py")
FEW = 2_000
MANY = 50_000 if "FLO_TEST_FULL" in os.environ else 8_000
BYTES_PER_ITEM = 4_000
"""An item has 200 characters, and is there several times: as it came, as it is stored, as it was read. What an
iteration gave, kept besides, would be over it."""


def test_a_long_loop_keeps_nothing_of_the_iterations_that_ran(sqlite_url: str, tmp_path: Path) -> None:
    few = peak(sqlite_url, FEW)
    many = peak(f"sqlite:{tmp_path / 'many.sqlite'}", MANY)
    assert many - few < (MANY - FEW) * BYTES_PER_ITEM


def peak(url: str, items: int) -> int:
    """The most memory that a process took for a loop of so many items, in bytes."""
    command = [sys.executable, str(LONG_LOOP), url, str(items)]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["status"] == "success"
    assert told["rows"] == items
    return int(told["peakBytes"])
