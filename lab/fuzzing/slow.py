"""How long a completion can keep a scorer busy: adversarial completions of the largest size, for every data set.

    python -m lab.fuzzing.slow --json        # docs/results/scoring.md

A completion repeats a sign, a word or a move of the data set's own language up to 16 KiB, alone, behind the right
answer and before it. Measured in CPU time. A message holds 64 KiB, so a group costs four times the slowest completion
at most. `growth` is how much longer four times the text takes: 4 is linear. Completions known to hang the library's own
scorers go through a scoring process too, which gives up after five seconds.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.fuzzing.right_answers import answered
from protocol.limits import MAX_COMPLETION_CHARS
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.environment import SCORER_MODULE
from swarm_node.environments.reasoning_gym.source import LibraryItem
from swarm_node.scoring.client import ScoringClient

HOSTILE_SOURCE = str(Path(__file__).with_name("hostile_source.py"))
SEED = 41
TIME_LIMIT = 5.0  # seconds, as nodes have it by default
TINY = 0.0005  # seconds below which growth is noise
LETTERS = "abcdefghijklmnopqrstuvwx"
HANGING = {  # what stops the library's scorers
    "rush_hour": ("A+999999999999",),
    "propositional_logic": ("∨".join(LETTERS), "→".join(LETTERS), "¬" * 1500 + "P"),
}
PIECES = (
    *("(", "[", "{", ")", "¬", "-", "~", "+", ".", ",", " ", "\n", "0", "9", "é", "<answer>", "</answer>", '"', "\\"),
    *("A ∨ ", "A → ", "A ↔ ", "¬A ∧ ", "(A ∨ ", "A,B → ", "R ", "R' U2 ", "R99 ", "Rw ", "x ", "A+9 ", "A+99999999 "),
    *("A+1 A-1 ", "L", "LR", "up ", "up down ", "A → B → ", "A", "B ", "1 ", "1,", "1/", "1e9,", "9 9\n", "[1],"),
    *("a,b,", "+1", "*x", "**9", "x+", "(1+", "1*(", "- -", "×2", "2 × ", '["fill A", ', '{"0": 1, ', '["a","b"],'),
    *("Zoey is a knight, and ", "is a knight ", "A=1,", "17 days, ", "1:", "°", "\\frac{", "0x", "1_", "DEUS,DENS,"),
    *("Move disk 1 from Peg 1 to Peg 2\n", '{"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"}, ', "move(", ", "),
    *("word ", "C4 "),
)


@dataclass(slots=True)
class Slowest:
    """Of one data set."""

    seconds: float = 0.0
    growth: float = 0.0  # of that completion
    completion: str = ""  # how it begins


def completions(answer: str, size: int) -> Iterator[str]:
    """Adversarial completions of so many characters."""
    pieces = [*PIECES, f"{answer} ", f"{answer}\n", f"{answer},", *{f"{word} " for word in answer.split()[:12]}]
    for piece in pieces:
        text = (piece * (size // len(piece) + 1))[:size]
        yield text
        yield f"{answer}{text}"[:size]
        yield f"{text}{answer}"[-size:]


def survey(score: Callable[[str], float], answer: str) -> Slowest:
    """The slowest of all, and how it grows."""
    slowest = Slowest()
    small, large = (list(completions(answer, size)) for size in (MAX_COMPLETION_CHARS // 4, MAX_COMPLETION_CHARS))
    for shorter, text in zip(small, large, strict=True):
        seconds = _timed(score, text)
        if seconds > slowest.seconds:
            slowest = Slowest(seconds, seconds / max(TINY, _timed(score, shorter)), text[:60])
    return slowest


def _timed(score: Callable[[str], float], text: str) -> float:
    began = time.thread_time()
    score(text)
    return time.thread_time() - began


def questions(name: str) -> Iterator[tuple[LibraryItem, str]]:
    """The first question of each configuration that has an answer which is soon found."""
    for config in CATALOGUE[name].values():
        yield from islice(answered(name, config, SEED, 64), 1)


def ours(name: str) -> Slowest:
    """With the scorer of ours, the slowest of all configurations."""
    return max((survey(item.score, answer) for item, answer in questions(name)), key=lambda each: each.seconds)


def hanging() -> dict[str, list[tuple[float, float]]]:
    """Seconds with the library's scorer, and CPU seconds with ours, of each completion that is known to hang it."""
    found: dict[str, list[tuple[float, float]]] = {}
    with ScoringClient(HOSTILE_SOURCE, version("reasoning-gym"), TIME_LIMIT, 1024, SCORER_MODULE) as client:
        for name, texts in HANGING.items():
            client.ask([(name, "library", SEED, 0, ("1",))])
            item = LibraryItem(name, next(iter(CATALOGUE[name].values())), SEED, 0)
            found[name] = []
            for text in texts:
                began = time.perf_counter()
                client.ask([(name, "library", SEED, 0, (text,))])
                found[name].append((time.perf_counter() - began, _timed(item.score, text)))
    return found


def main() -> None:
    """Prints a line for each data set."""
    parser = command.parser("lab.fuzzing.slow", __doc__)
    parser.add_argument("--data-sets", nargs="*", help="only these")
    options = parser.parse_args()
    results = {name: ours(name) for name in options.data_sets or sorted(CATALOGUE)}
    lines = [[n, f"{s.seconds * 1000:.1f}", f"{s.growth:.1f}", repr(s.completion)[:40]] for n, s in results.items()]
    command.show(["data set", "slowest, ms", "growth", "completion"], lines)
    known = hanging()
    for name, pairs in known.items():
        for theirs, here in pairs:
            print(f"{name}: {theirs:.2f} s with the library's scorer, {here * 1000:.2f} ms with ours")
    found: dict[str, Any] = {
        "completions_per_configuration": sum(1 for _ in completions("1", 100)),
        "slowest_ms": {name: round(slowest.seconds * 1000, 2) for name, slowest in results.items()},
        "worst_ms": round(max(slowest.seconds for slowest in results.values()) * 1000, 2),
        "hanging_s": known,
    }
    print(f"worst: {found['worst_ms']} ms")
    command.finish(options, found)


if __name__ == "__main__":
    main()
