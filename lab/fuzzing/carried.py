"""Right answers that carry free text, over every data set of the catalogue: is any of them paid?

    python -m lab.fuzzing.carried --json        # docs/results/scoring.md

Paid: a reward above that of an empty answer, for a completion that is not a spelling of the right
answer (`carriers`). Data sets that are done are kept under `--runs` and not done again; results of
other options are replaced.
"""

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.fuzzing.carriers import LONGEST, carriers, is_spelling, laden
from lab.fuzzing.right_answers import answered
from protocol.limits import MAX_QUESTIONS_PER_ROUND
from swarm_node.common.files import write_bytes
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.source import LibraryItem

SEED = 29
LOGIC = "¬∧∨→↔() \n"
SHOWN = 20  # examples of paid completions that are kept for each data set


@dataclass(slots=True)
class Tally:
    """Counts of one data set."""

    cases: int = 0
    spelling: int = 0  # rewarded completions that only spell the answer otherwise
    # Rewarded completions that are another right answer, with nothing in them but its parts
    another: int = 0
    paid: dict[str, int] = field(default_factory=dict)  # by place
    examples: list[str] = field(default_factory=list)
    seconds: float = 0.0


def sweep(
    name: str,
    texts: dict[str, str],
    seed: int = SEED,
    questions: int = 1,
    configs: int | None = None,
) -> Tally:
    """Every carrier at every place of right answers to so many questions of the first `configs`
    configurations.
    """
    tally, rng, began = Tally(), random.Random(f"{seed} {name}"), time.monotonic()
    for config in list(CATALOGUE[name].values())[:configs]:
        for item, answer in islice(
            answered(name, config, seed, MAX_QUESTIONS_PER_ROUND), questions
        ):
            nothing = item.score("")
            for label, carrier in texts.items():
                for place, said in laden(answer, carrier, rng):
                    _count(tally, item, answer, said, nothing, f"{place}, {label}")
    tally.seconds = round(time.monotonic() - began, 1)
    return tally


def _count(
    tally: Tally, item: LibraryItem, answer: str, said: str, nothing: float, label: str
) -> None:
    tally.cases += 1
    if said == answer or (reward := item.score(said)) <= nothing:
        return
    if is_spelling(said, answer):
        tally.spelling += 1
        return
    if _is_another(item, said, answer):
        tally.another += 1
        return
    place = label.partition(",")[0]
    tally.paid[place] = tally.paid.get(place, 0) + 1
    if len(tally.examples) < SHOWN:
        tally.examples.append(f"{label}: {reward:.3g} for {said[:200]!r}")


def _is_another(item: LibraryItem, said: str, answer: str) -> bool:
    """Whether the completion is another statement that follows from the premises: not P may follow
    as well as P.
    """
    name, entry = item.portable
    if name != "propositional_logic" or len(said) > LONGEST * len(answer):
        return False
    known = {*LOGIC, *entry["metadata"]["variables"]}
    return {*said} <= known and item.dataset.score_answer(said.strip(), item.entry) == 1.0


def kept(folder: Path, name: str, options: argparse.Namespace) -> Tally:
    """The tally of a data set: read if it was made with these options, else made and written."""
    path = folder / f"{name}.json"
    made = {"seed": options.seed, "questions": options.questions}
    if path.exists() and (found := json.loads(path.read_text("utf-8")))["made"] == made:
        return Tally(**found["tally"])
    tally = sweep(name, carriers(), options.seed, options.questions)
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(path, json.dumps({"made": made, "tally": asdict(tally)}).encode())
    return tally


def summary(results: dict[str, Tally]) -> dict[str, Any]:
    """Counts of cases, all together and by data set, and what is paid."""
    return {
        "data_sets": len(results),
        "carriers": len(carriers()),
        "cases": sum(tally.cases for tally in results.values()),
        "spellings": sum(tally.spelling for tally in results.values()),
        "another": sum(tally.another for tally in results.values()),
        "paid": {name: sum(tally.paid.values()) for name, tally in results.items() if tally.paid},
        "cases_by_data_set": {name: tally.cases for name, tally in results.items()},
    }


def run(names: Sequence[str], options: argparse.Namespace) -> dict[str, Tally]:
    """The tally of each data set; prints a line about each when it is done."""
    results = {}
    for k, name in enumerate(names, 1):
        results[name] = tally = kept(options.runs, name, options)
        line = (
            f"{k}/{len(names)} {name}: {tally.cases} cases, {tally.spelling} spellings, "
            f"{sum(tally.paid.values())} paid"
        )
        print(line, *tally.examples, sep="\n    ", flush=True)
    return results


def main() -> None:
    """Prints a line for each data set, and what is paid."""
    parser = command.parser("lab.fuzzing.carried", __doc__)
    parser.add_argument("--data-sets", nargs="*", help="only these")
    parser.add_argument("--questions", type=int, default=1, help="of each configuration")
    parser.add_argument("--seed", type=int, default=SEED, help="of questions and places")
    command.add_runs(parser)
    options = parser.parse_args()
    found = summary(run(options.data_sets or sorted(CATALOGUE), options))
    print("\n".join(f"{what}: {value}" for what, value in found.items()))
    command.finish(options, found)


if __name__ == "__main__":
    main()
