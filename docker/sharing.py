"""Did a node learn from another one? Judges the events of a node that could be taught.

    python -P docker/sharing.py < events.jsonl      # prints COULD TAUGHT

A round scores external groups, and the next round trains on them. COULD is the number of rounds in
which the other could teach: the round before scored an informative external group, and the node did
not find by its own answers that every group it looked at was no better than those. TAUGHT is the
number of them that trained on an external group.

Two nodes that have nothing to teach each other have no such rounds. Where scoring loses all
external groups there are none either, and where the pool never gives any, TAUGHT is 0. It runs
within the image, by itself, and so imports nothing of the project.
"""

import itertools
import json
import sys
from collections.abc import Iterable, Mapping
from typing import Any

NO_BETTER = "no better than local"  # rollouts.defence names it so, where `rescue` refuses a group

Round = Mapping[str, Any]


def judged(lines: Iterable[str]) -> tuple[int, int]:
    """The number of rounds that could be taught, and of those that were."""
    events = map(json.loads, lines)
    rounds = [event["report"] for event in events if event["event"] == "RoundDone"]
    could = [after for before, after in itertools.pairwise(rounds) if teaches(before, after)]
    return len(could), sum(after["external_informative"] > 0 for after in could)


def teaches(before: Round, after: Round) -> bool:
    """Whether a group that `before` scored could teach the node in `after`."""
    offered = any(counts.get("informative") for counts in before["external_by_peer"].values())
    none_was_better = after["external_informative"] == 0 and NO_BETTER in after["skipped"]
    return offered and not none_was_better


if __name__ == "__main__":
    could, taught = judged(sys.stdin)
    sys.stdout.write(f"{could} {taught}\n")
