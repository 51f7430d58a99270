"""Temporal Clue: are the puzzles right, are answers scored rightly, and how long does a puzzle take?

    python -m lab.studies.temporal_clue --json      # docs/results/temporal_clue.md

CPU seconds, one thread. The last line of --json: `ratio` is the scoring process's budget over the slowest shared
puzzle.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from statistics import fmean, median, stdev

from lab.benchmarks import command
from lab.studies import enumeration
from swarm_node.extensions.temporal_clue import published, scoring, text
from swarm_node.extensions.temporal_clue.generate import Puzzle, generate
from swarm_node.extensions.temporal_clue.make import TooSlow, bounded
from swarm_node.extensions.temporal_clue.sizes import SIZES
from swarm_node.extensions.temporal_clue.solver import Rules
from swarm_node.scoring.contract import QUESTION_BUDGET

FILE = Path("data/temporal_clue/test.json")
SHARED = tuple(config_id for config_id, size in SIZES.items() if size.shared)
SEED = 11


@dataclass(frozen=True)
class Scored:
    """Mean scores over puzzles."""

    puzzles: int
    right: float
    right_compat: float
    shuffled: float
    shuffled_error: float  # standard error
    chance: float


def main() -> None:
    parser = command.parser("lab.studies.temporal_clue", __doc__)
    parser.add_argument("--generated", type=int, default=1000, help="puzzles whose right answers are scored")
    parser.add_argument("--enumerated", type=int, default=200, help="puzzles that are checked without CP-SAT")
    parser.add_argument("--full", type=int, default=12, help="puzzles of the sizes made ahead")
    parser.add_argument("--limit", type=int, default=60, help="seconds one of those may take")
    options = parser.parse_args()
    solved = solve_published()
    print(f"published: {solved} of 64 solved, each with one solution, the published one", flush=True)
    result: dict[str, object] = {"published_solved": solved}
    seconds: dict[str, list[float]] = {config_id: [] for config_id in SHARED}
    made = list(timed(options.generated, seconds))
    for name, found in (("published", scored_published()), ("generated", scored_generated(made))):
        result[name] = vars(found)
        print(
            f"{name}: {found.puzzles} puzzles, right answers {found.right:.3f} (compat {found.right_compat:.3f}), "
            f"shuffled {found.shuffled:.3f} +- {1.96 * found.shuffled_error:.3f}, chance {found.chance:.3f}",
            flush=True,
        )
    result["same_in_other_processes"] = same = same_elsewhere()
    print(f"same puzzles in 3 processes with 3 hash seeds: {same}", flush=True)
    result["enumerated"] = wrong = enumerated(options.enumerated)
    print(f"enumerated without CP-SAT: {wrong['puzzles']} puzzles, {wrong['wrong']} with something wrong", flush=True)
    result["seconds"] = timings = {name: spread(taken) for name, taken in seconds.items()}
    for config_id in ("large", "full"):
        timings[config_id] = made_ahead(config_id, options.full, options.limit)
    for name, figures in timings.items():
        print(name, ", ".join(f"{key} {value:.3g}" for key, value in figures.items()), flush=True)
    slowest = max(timings[name]["max"] for name in SHARED)
    result |= {"ratio": QUESTION_BUDGET / slowest, "budget": QUESTION_BUDGET, "slowest_shared": slowest}
    command.finish(options, result)


def solve_published() -> int:
    """How many have one solution, the published one, for every question."""
    solved = 0
    for entry in json.loads(FILE.read_text()):
        riddle = published.read(entry["prompt"])
        rules, reader = Rules(riddle.setting), published.Reader(riddle.setting)
        world = rules.another(riddle.clues)
        if world is not None and rules.another(riddle.clues, [world]) is None:
            solved += {k: reader.answer(q, world) for k, q in riddle.questions.items()} == entry["solution"]
    return solved


def timed(puzzles: int, seconds: dict[str, list[float]]) -> Iterator[Puzzle]:
    """Puzzles of the shared sizes in turn, and what each took."""
    generate("tiny", SEED, 0)  # imports
    for index in range(puzzles):
        config_id = SHARED[index % len(SHARED)]
        began = time.process_time()
        yield generate(config_id, SEED, index)
        seconds[config_id].append(time.process_time() - began)


def scored_published() -> Scored:
    entries = json.loads(FILE.read_text())
    return scored([(entry["solution"], published.read_choices(entry["prompt"])) for entry in entries])


def scored_generated(made: list[Puzzle]) -> Scored:
    return scored([(text.key(puzzle), choices(puzzle)) for puzzle in made])


def choices(puzzle: Puzzle) -> list[tuple[str, ...]]:
    """The lists of names that a right answer comes from."""
    setting = puzzle.setting
    return [setting.suspects, setting.weapons, setting.rooms, setting.times, setting.motives]


def scored(keys: list[tuple[Mapping[str, str], list[tuple[str, ...]]]]) -> Scored:
    """Scores of right answers, and of names drawn from the list that the right one is in."""
    rng = random.Random(0)
    right, compat, shuffled, chance = [], [], [], []
    for key, lists in keys:
        options = [name for names in lists for name in names]
        right.append(scoring.score(lines(key), key, options))
        compat.append(scoring.compat(lines(key), key))
        of = {letter: next(names for names in lists if answer in names) for letter, answer in key.items()}
        shuffled.append(scoring.score(lines({k: rng.choice(names) for k, names in of.items()}), key, options))
        chance.append(fmean(1 / len(names) for names in of.values()))
    error = stdev(shuffled) / len(shuffled) ** 0.5
    return Scored(len(keys), fmean(right), fmean(compat), fmean(shuffled), error, fmean(chance))


def lines(key: Mapping[str, str]) -> str:
    return "\n".join(f"{letter}. {name}" for letter, name in key.items())


def same_elsewhere() -> bool:
    code = (
        "import hashlib\n"
        "from swarm_node.extensions.temporal_clue.generate import generate\n"
        f"made = [generate(c, {SEED}, i) for c in {SHARED} for i in range(20)]\n"
        "print(hashlib.sha256(repr(made).encode()).hexdigest())\n"
    )
    seen = {
        subprocess.check_output([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed})
        for seed in ("0", "1", "31337")
    }
    return len(seen) == 1


def enumerated(puzzles: int) -> dict[str, int]:
    """Two in five of the two smallest sizes, one in five with steps and motives, as small as those come."""
    few = puzzles // 5
    some = [generate("tiny", SEED + 1, index) for index in range(2 * few)]
    some += [generate("small", SEED + 1, index) for index in range(puzzles - 3 * few)]
    steps = (generate("medium", SEED + 1, index) for index in count())
    some += islice((p for p in steps if enumeration.size(p.setting) < 200_000), few)
    return {"puzzles": len(some), "wrong": sum(bool(enumeration.check(puzzle)) for puzzle in some)}


def made_ahead(config_id: str, puzzles: int, limit: int) -> dict[str, float]:
    seconds, given_up = [], 0
    for index in range(puzzles):
        began = time.process_time()
        try:
            with bounded(limit):
                generate(config_id, SEED, index)
        except TooSlow:
            given_up += 1
        else:
            seconds.append(time.process_time() - began)
    return {**spread(seconds), "given_up": given_up}


def spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "puzzles": len(ordered),
        "median": median(ordered),
        "p99": ordered[int(0.99 * len(ordered))],
        "max": ordered[-1],
    }


if __name__ == "__main__":
    main()
