"""What docker/check.sh asks of two nodes: rounds in which one could teach the other, and did."""

import json
import subprocess
import sys
from pathlib import Path

FILE = Path(__file__).parents[2] / "docker" / "sharing.py"


def round_done(scored: int, trained: int, informative: int | None = None, worse: int = 0) -> str:
    """A line of events.jsonl: so many groups scored, of which informative, and trained on."""
    counts = {"scored": scored, "informative": scored if informative is None else informative}
    report = {
        "external_by_peer": {"12D3KooWBob": counts} if scored else {},
        "external_informative": trained,
        "skipped": {"no better than local": worse} if worse else {},
    }
    return json.dumps({"event": "RoundDone", "report": report})


def judged(*lines: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, "-P", FILE],
        input="\n".join([json.dumps({"event": "RunStarted"}), *lines]),
        text=True,
        capture_output=True,
        check=True,
    )
    return [int(word) for word in done.stdout.split()]


def test_a_round_can_be_taught_after_one_that_scored_an_informative_group() -> None:
    assert judged(round_done(4, 0), round_done(4, 2), round_done(0, 3), round_done(0, 0)) == [2, 2]
    assert judged(round_done(4, 0, informative=0), round_done(4, 4)) == [0, 0]


def test_groups_that_are_no_better_than_own_ones_had_nothing_to_teach() -> None:
    taught, alike = round_done(4, 2, worse=2), round_done(4, 0, worse=4)
    assert judged(round_done(4, 0), taught, alike, alike, taught) == [2, 2]


def test_scoring_that_loses_all_external_groups_leaves_no_round_to_judge() -> None:
    assert judged(*[round_done(0, 0)] * 50) == [0, 0]


def test_a_pool_that_never_gives_shows() -> None:
    assert judged(*[round_done(4, 0)] * 50) == [49, 0]
