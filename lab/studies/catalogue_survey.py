"""How catalogue.json was made: every reasoning-gym dataset at every level, built in two processes
and compared.

    python -m lab.studies.catalogue_survey swarm_node/environments/reasoning_gym/catalogue.json

Run by hand when the pinned version changes (about five minutes on one core). One process goes
through everything forwards, the other backwards, which reveals what depends on the order. easy,
medium and hard are levels 0, 1 and 2 of the library's own curricula; higher levels are too long for
the models of a swarm.
"""

import argparse
import dataclasses
import hashlib
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reasoning_gym.factory import DATASETS, create_curriculum, has_curriculum

from lab.benchmarks import command
from swarm_node.environments.reasoning_gym.catalogue import REFUSED
from swarm_node.environments.reasoning_gym.drawing import NoQuestion
from swarm_node.environments.reasoning_gym.source import LibraryItem
from swarm_node.scoring.contract import is_score

ORDERS = ("forwards", "backwards")
LEVELS = {"easy": 0, "medium": 1, "hard": 2}
SEEDS = (0, 7, 123_456_789, 2**31 - 1)
INDICES = (0, 1, 2, 3, 5, 8, 40, 99, 200, 255)
SLOWEST = 0.2  # CPU seconds of an item; the budget at run time is 0.25
PATIENCE = 1.0  # CPU seconds after which an item is given up
LONGEST = 16 * 1024  # characters of a prompt
EXACT_FROM = 0.99
# Share of a level's items that may have the same answer: beyond it the level tests nothing
MOST_ALIKE = 0.9
SAME = "nearly always the same answer"
WRONG = "swordfish"  # an answer that is right nowhere

Found = dict[str, Any]


class TooSlow(BaseException):
    """Not an Exception: generators that catch those must not swallow it."""


def configurations(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Config id and what differs from the library's defaults, for each level the library knows."""
    yield "default", {}
    if not has_curriculum(name):
        return
    defaults = DATASETS[name][1]()
    for config_id, level in LEVELS.items():
        curriculum = create_curriculum(name)
        curriculum.set_global_level(level)
        config = curriculum.generate_configuration()
        fields = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
        changed = {key: value for key, value in fields.items() if value != getattr(defaults, key)}
        yield (
            config_id,
            {key: value for key, value in changed.items() if key not in ("seed", "size")},
        )


def measure(name: str, config: dict[str, Any], addresses: list[tuple[int, int]]) -> Found:
    """Digests of items, and the objection to this level ("" if there is none)."""
    digests: dict[str, str] = {}
    answers: Counter[str] = Counter()
    for seed, index in addresses:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)
        try:
            item = LibraryItem(name, json.loads(json.dumps(config)), seed, index)
            signal.setitimer(signal.ITIMER_PROF, 0)
            against = objection(item, time.process_time() - began)
        except TooSlow:
            against = "slow"
        except NoQuestion:
            continue  # a good level may have such items
        except Exception as error:  # noqa: BLE001
            against = f"raises {type(error).__name__}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        if against:
            return {"config": config, "digests": digests, "against": against}
        answers[repr(item.entry["answer"])] += 1
        body = repr(item.entry).encode("utf-8", "backslashreplace")
        digests[f"{seed}/{index}"] = hashlib.sha256(body).hexdigest()[:16]
    return {"config": config, "digests": digests, "against": SAME if alike(answers) else ""}


def alike(answers: Counter[str]) -> bool:
    """Whether one answer stands for nearly all. If the library keeps no answer (None), it checks
    answers against the question itself, and whether they are alike cannot be known.
    """
    kept = Counter({answer: count for answer, count in answers.items() if answer != repr(None)})
    return max(kept.values(), default=0) > MOST_ALIKE * answers.total()


def objection(item: LibraryItem, seconds: float) -> str:
    """The objection to this question; "" if there is none."""
    if seconds > SLOWEST:
        return "slow"
    if len(item.prompt) > LONGEST:
        return "long"
    answer, score = item.entry["answer"], item.score(WRONG)
    if not is_score(score) or score >= 0.5:
        return f"scores a wrong answer {score}"
    if isinstance(answer, str) and item.score(answer) < EXACT_FROM:
        return "does not score its reference answer as right"
    return ""


def survey(backwards: bool) -> dict[str, Found]:
    def stop(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    addresses = [(seed, index) for seed in SEEDS for index in INDICES]
    names = sorted(set(DATASETS) - set(REFUSED))
    if backwards:
        names, addresses = names[::-1], addresses[::-1]
    random.seed(backwards)
    return {
        f"{name}/{config_id}": measure(name, config, addresses)
        for name in names
        for config_id, config in configurations(name)
    }


def merge(one: dict[str, Found], two: dict[str, Found]) -> dict[str, Any]:
    """Levels without objections on which both processes agree, and the others with the reason."""
    tasks: dict[str, dict[str, Any]] = {}
    left_out: dict[str, str] = {}
    for task in sorted(one):
        dataset, _, config_id = task.partition("/")
        against = one[task]["against"] or two[task]["against"]
        if not against and one[task]["digests"] != two[task]["digests"]:
            against = "differs between processes"
        if against:
            left_out[task] = against
        else:
            tasks.setdefault(dataset, {})[config_id] = one[task]["config"]
    return {"tasks": tasks, "left_out": left_out}


def render(catalogue: dict[str, Any]) -> str:
    """JSON, one level a line."""
    datasets = [
        f"    {json.dumps(name)}: {{\n"
        + ",\n".join(
            f"      {json.dumps(config_id)}: {json.dumps(config)}"
            for config_id, config in levels.items()
        )
        + "\n    }"
        for name, levels in catalogue["tasks"].items()
    ]
    left_out = [
        f"    {json.dumps(task)}: {json.dumps(reason)}"
        for task, reason in catalogue["left_out"].items()
    ]
    return (
        '{\n  "tasks": {\n'
        + ",\n".join(datasets)
        + '\n  },\n  "left_out": {\n'
        + ",\n".join(left_out)
        + "\n  }\n}\n"
    )


def main() -> None:
    parser = command.parser("lab.studies.catalogue_survey", __doc__)
    parser.add_argument("file", type=Path, help="where the catalogue goes")
    # One of the two processes
    parser.add_argument("--order", choices=ORDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.order:
        answers, sys.stdout = sys.stdout, sys.stderr  # generators print
        json.dump(survey(backwards=options.order == "backwards"), answers)
        return
    again = [
        sys.executable,
        "-s",
        "-P",
        "-m",
        "lab.studies.catalogue_survey",
        str(options.file),
        "--order",
    ]
    one, two = (
        json.loads(subprocess.check_output([*again, order], env={"PYTHONHASHSEED": "0"}))
        for order in ORDERS
    )
    catalogue = merge(one, two)
    options.file.write_text(render(catalogue), encoding="utf-8")
    counts = {"data_sets": len(catalogue["tasks"]), "left_out": len(catalogue["left_out"])}
    print(f"{counts['data_sets']} data sets, {counts['left_out']} levels left out")
    command.finish(options, counts)


if __name__ == "__main__":
    main()
