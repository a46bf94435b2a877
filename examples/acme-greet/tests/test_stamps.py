"""``acme.stamp`` finds what it looks for, and is ended when that takes too long."""

from __future__ import annotations

from hashlib import sha256

from flo.testing import run_step, run_workflow

from acme_greet.stamps import stamp


def test_the_hash_begins_with_zeros() -> None:
    output = run_step(stamp, {"text": "good day", "bits": 8}).output
    assert output["hash"].startswith("00")
    assert output["hash"] == sha256(f"{output['nonce']}:good day".encode()).hexdigest()


def test_a_stamp_that_takes_for_ever_is_given_up() -> None:
    step = {"stepId": "stamp", "stepType": "acme.stamp", "timeoutMilliseconds": 300, "input": {"text": "", "bits": 256}}
    result = run_workflow({"steps": [step]}, steps=[stamp])
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["code"] == "timeout"
