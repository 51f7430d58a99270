"""What a node selects does not change where its code does.

`tests/data/histories.txt` has the digests of 200 histories: what was trained on, refused and
skipped, every verdict, and what went on waiting. They were made when places in the training set
were first shared out, and names of groups remembered for longer than groups wait. Where a change is
meant to change them, `python -m tests.histories 200 > tests/data/histories.txt` writes them again,
and the commit says what changed.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.histories import History, digest

DIGESTS = (Path(__file__).parents[2] / "data" / "histories.txt").read_text().split()


def test_histories_have_all_that_can_become_of_a_group() -> None:
    """Else equal digests would say little."""
    seen: Counter[str] = Counter()
    for history in map(History, range(20)):
        rounds = history.run()
        seen["scored ahead" if history.ahead else "scored in step"] += 1
        seen["restarts"] += history.restarts
        for _, external, considered, refused, skipped, verdicts, _, asked in rounds:
            seen.update(dict(skipped))
            seen["trained on"] += len(external)
            seen["scored"] += len(considered)
            seen["refused"] += len(refused)
            seen["answered here"] += asked
            seen["told useful"] += sum(useful for *_, useful, _ in verdicts)
            seen["served again"] += len(external) > sum(useful for *_, useful, _ in verdicts)
    assert all(seen[name] > 10 for name in ("trained on", "scored", "told useful", "answered here"))
    assert seen["scored ahead"] > 5 and seen["scored in step"] > 5 and seen["restarts"] > 10
    assert seen["refused"] and seen["served again"]
    assert seen["without signal"] and seen["no better than local"]
    assert seen["scoring timeout"] and seen["scoring failed"]


def test_what_a_node_selects_is_what_it_was() -> None:
    assert [digest(seed) for seed in range(30)] == DIGESTS[:30]


@pytest.mark.slow
def test_what_a_node_selects_is_what_it_was_in_many_histories() -> None:
    assert [digest(seed) for seed in range(30, len(DIGESTS))] == DIGESTS[30:]
