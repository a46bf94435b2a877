"""What a long loop needs: memory for the iterations that run, not for those that ran."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
ITEMS = 50_000
BOUND = 150_000_000


def test_a_loop_of_fifty_thousand_items_stays_within_its_memory(sqlite_url: str) -> None:
    command = [sys.executable, "-m", "benchmarks.long_loop", sqlite_url, str(ITEMS)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["status"] == "success"
    assert told["rows"] == ITEMS
    assert told["peakBytes"] < BOUND
