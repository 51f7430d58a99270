"""Right answers as honest models spell them, over every data set of the catalogue: our scores
beside the library's.

    python -m lab.fuzzing.spellings --json        # docs/results/scoring.md

Each spelling is the answer and nothing else. Lost: spellings that are right for the library and not
here; a loss without a line in `REASONS` is a mistake of ours. Won: spellings that are right here
and not for the library.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from lab.benchmarks import command
from lab.fuzzing.right_answers import answered, spellings
from protocol.limits import MAX_QUESTIONS_PER_ROUND
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.source import LibraryItem
from swarm_node.scoring.bound import answer_of

SEED = 31
REASONS = {  # (data set, spelling) -> why the library's full reward is not ours
    (
        "spell_backward",
        "full stop",
    ): "the library's sum of floats passes 1 for some words, whatever stands behind them"
}


@dataclass(slots=True)
class Tally:
    """Counts of one data set."""

    tried: int = 0
    rewarded: int = 0
    lost: Counter[str] = field(default_factory=Counter)  # by spelling
    won: Counter[str] = field(default_factory=Counter)
    # Right answers that are not scored as right as they stand
    unrewarded: list[str] = field(default_factory=list)


def compare(name: str, questions: int) -> Tally:
    """Tries the spellings of so many answers of each configuration of a data set; of a hard one
    only one.
    """
    tally = Tally()
    for config_id, config in CATALOGUE[name].items():
        wanted = questions if config_id != "hard" else 1
        for item, answer in islice(answered(name, config, SEED, MAX_QUESTIONS_PER_ROUND), wanted):
            _spell(tally, item, answer)
    return tally


def _spell(tally: Tally, item: LibraryItem, answer: str) -> None:
    if item.score(answer) != 1.0:
        tally.unrewarded.append(answer)
    for label, text in spellings(answer).items():
        ours, library = item.score(text), _library(item, text)
        tally.tried += 1
        tally.rewarded += ours == 1.0
        if library >= 1.0 - 1e-9 and ours != 1.0:
            tally.lost[label] += 1
        elif ours == 1.0 and library < 1.0 - 1e-9:
            tally.won[label] += 1


def _library(item: LibraryItem, text: str) -> float:
    try:
        reward: float = item.dataset.score_answer(answer_of(text), item.entry)
        return reward
    except Exception:  # noqa: BLE001  about 25 of its scorers raise on odd text
        return 0.0


def run(names: Sequence[str], questions: int) -> dict[str, Tally]:
    """The tally of each data set."""
    return {name: compare(name, questions) for name in names}


def unexplained(results: dict[str, Tally]) -> dict[str, Any]:
    """Losses without a reason, and right answers that are not scored as right, by data set."""
    found = {}
    for name, tally in results.items():
        lost = {label: count for label, count in tally.lost.items() if (name, label) not in REASONS}
        if lost or tally.unrewarded:
            found[name] = {"lost": lost, "unrewarded": tally.unrewarded}
    return found


def main() -> None:
    """Prints a line for each data set, and what is unexplained."""
    parser = command.parser("lab.fuzzing.spellings", __doc__)
    parser.add_argument("--data-sets", nargs="*", help="only these")
    parser.add_argument(
        "--questions", type=int, default=3, help="of each configuration; of the hard ones one"
    )
    options = parser.parse_args()
    results = run(options.data_sets or sorted(CATALOGUE), options.questions)
    lines = [
        [n, str(t.tried), str(t.rewarded), str(t.lost.total()), str(t.won.total())]
        for n, t in results.items()
    ]
    command.show(["data set", "spellings", "rewarded", "lost", "won"], lines)
    found = {
        "spellings": sum(tally.tried for tally in results.values()),
        "lost": {name: tally.lost for name, tally in results.items() if tally.lost},
        "won": {name: tally.won for name, tally in results.items() if tally.won},
        "unexplained": unexplained(results),
    }
    print("\n".join(f"{what}: {value}" for what, value in found.items()))
    command.finish(options, found)


if __name__ == "__main__":
    main()
