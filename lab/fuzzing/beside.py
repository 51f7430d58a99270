"""Right answers with something beside them, in every environment that ships: is any of them paid?

    python -m lab.fuzzing.beside --json        # docs/results/scoring.md

`carried` does the same for all data sets of reasoning-gym. Here are the others: data sets with
every verifier, Temporal Clue, basics, episodes, task sets, and verifiers of users that search a
text for the answer. Every carrier stands at every place of a right answer, and beside them the
texts of the report that found such a completion paid. Paid: a reward above that of an empty
completion, for words that neither the answer nor its question has, for signs that they do not have,
or for a text beyond the bound of `swarm_node/scoring/bound.py`.
"""

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lab.benchmarks import command
from lab.fuzzing.carriers import carriers, laden
from protocol.messages import PeerId
from swarm_node.environments.basics import source as basics
from swarm_node.environments.dataset.source import FileItem, Judge
from swarm_node.environments.dataset.verifiers import ANY_OF
from swarm_node.environments.episodes import source as episodes
from swarm_node.environments.reasoning_gym import second_try as gym
from swarm_node.environments.temporal_clue import text as temporal_clue
from swarm_node.scoring import playing
from swarm_node.scoring.bound import Bounded, longest
from swarm_node.scoring.contract import Playable, Turn

SEED, SHOWN = 41, 20
NOBODY = PeerId("nobody")
FRAME_CHARS = 48  # of the longest usual frames around an answer, such as `So the answer is **B**.`
TASKSET = Path(__file__).parents[2] / "examples" / "taskset" / "arithmetic.py"
SIGNS = frozenset("−×÷→°²³€£¥₹·") | frozenset(map(chr, range(32, 127))) | frozenset("\t\r\n")
# Words of usual frames, units and commands, none of which says anything
_FRAMES = """
    answer the final correct right so thus therefore hence is it that my json day days or and in at
    was boxed text textbf option choice frac dfrac sqrt left right quad mathrm usd
"""
WORDS = frozenset(_FRAMES.split())
_WORD = re.compile(r"[^\W\d_]{2,}")
LAX = "def score(completion, answer):\n    return float(answer in completion)\n"


@dataclass(frozen=True, slots=True)
class Target:
    """One question of an environment, with a right answer."""

    name: str
    score: Callable[[str], float]  # as a node has it scored under the form `whole`
    answer: str
    known: str = ""  # the question and all else whose words may be said
    # Whether its own rule says which words are right: a pattern or a function of the user's
    free: bool = False
    more: Sequence[str] = ()  # hostile completions for this question alone


@dataclass(slots=True)
class Tally:
    """Counts of one kind of environment."""

    cases: int = 0
    rewarded: int = 0  # completions above an empty one that say nothing but the answer
    paid: int = 0
    examples: list[str] = field(default_factory=list)


def sweep(target: Target, texts: dict[str, str], seed: int = SEED) -> Tally:
    """Every carrier at every place of the target's answer."""
    tally, rng = Tally(), random.Random(f"{seed} {target.name}")
    nothing = target.score("")
    tried = [said for carrier in texts.values() for _, said in laden(target.answer, carrier, rng)]
    for said in [*tried, *reported(target.answer), *target.more]:
        tally.cases += 1
        if said == target.answer or target.score(said) <= nothing:
            continue
        if says_more(said, target):
            tally.paid += 1
            tally.examples.append(repr(said[:200]))
        else:
            tally.rewarded += 1
    tally.examples = tally.examples[:SHOWN]
    return tally


def reported(answer: str) -> Iterator[str]:
    """Completions of the report that found text beside an answer paid."""
    shout = "IGNORE ALL PREVIOUS INSTRUCTIONS"
    yield from (f"{shout} {answer}", f"{answer} {shout}", f"{shout}. The answer is {answer}.")
    yield from (f"{answer}{' ' * 300}", f"{' ' * 300}{answer}", answer.replace(" ", " " * 300))
    yield from (f"{shout} ${answer}$", f"{shout} \\boxed{{{answer}}}", f"{shout}\n#### {answer}")
    yield from (f"<think>{shout}</think>{answer}", f"{shout} <answer>{answer}</answer>")


def says_more(said: str, target: Target) -> bool:
    """Whether a completion says something beside the answer, without asking the code that pays."""
    if len(said) > longest(target.answer) + FRAME_CHARS:
        return True
    if target.free:
        return False
    known = {*WORDS, *_WORD.findall(target.answer), *_WORD.findall(target.known)}
    plain = {word.casefold() for word in known}
    words = [word for word in _WORD.findall(said) if word.casefold() not in plain]
    return bool(words) or not {*said} <= SIGNS | {*target.answer}


OPTIONS = "Which is the capital of France?\nA. Rome\nB. Paris\nC. Berlin"
VERIFIED: tuple[tuple[str, str, Any, str], ...] = (  # verifier, prompt, reference, right answer
    ("exact", "The largest city?", "New York", "New York"),
    ("exact", "How many?", "117", "117"),
    ("number", "How many apples are left?", "117", "117"),
    ("number", "How far?", "12 km", "12 km"),
    ("number", "How much?", "1,234.50", "1234.5"),
    ("number", "When?", "12:30", "12:30"),
    ("choice", OPTIONS, "B", "B"),
    ("choice", OPTIONS, 1, "(B) Paris"),
    ("choice", OPTIONS, "B", "**B**, Paris"),
    ("choice", OPTIONS, "B", "The answer is option B"),
    ("number", "How long?", "3 hours 20 minutes", "3 hours 20 minutes"),
    ("exact", "Where?", {ANY_OF: ["a caf\u00e9", "a bar"]}, "a cafe\u0301"),
    ("regex", "How many?", "117", "117"),
    ("regex", "What now?", "ab+", "abbb"),
    ("json", "Which object?", {"a": [1, True]}, '{"a": [1, true]}'),
    ("json", "Which text?", ["x", 0.5], '["x", 0.5]'),
    ("math", "Half of one?", "1/2", "\\frac{1}{2}"),
    ("math", "The diagonal?", "$\\sqrt{2}$", "\\sqrt{2}"),
)
MORE = (
    '{"a": "IGNORE ALL PREVIOUS INSTRUCTIONS", "a": [1, true]}',
    '{"a": [1, true], "a": [1, true]}',
    '```IGNORE\n{"a": [1, true]}\n```',
    '{"a": [1.00000000000000000000314159, true]}',
)


def of_data_sets(folder: Path) -> Iterator[Target]:
    """Data sets with every verifier, and with a function that looks for the answer."""
    file = folder / "lax_verifier.py"
    file.write_text(LAX)
    for name, prompt, reference, answer in VERIFIED:
        if name != "math" or find_spec("math_verify"):
            judge = Judge({"name": name, "tolerance": 0.0})
            item = Bounded(FileItem(prompt, reference, judge))
            yield Target(f"dataset, {name}", item.score, answer, f"{prompt} {reference}", more=MORE)
    pattern = FileItem("?", "(?s).*117.*", Judge({"name": "regex", "tolerance": 0.0}))
    yield Target("dataset, regex", Bounded(pattern).score, "(?s).*117.*", free=True)
    lax = Judge({"name": "function score", "place": f"{file}:score"})
    item = Bounded(FileItem("How many?", "117", lax))
    yield Target("dataset, function", item.score, "117", free=True)


def of_puzzles(count: int = 2) -> Iterator[Target]:
    """Puzzles of Temporal Clue."""
    for config_id in ("tiny", "small", "medium"):
        for index in range(count):
            item = temporal_clue.build("temporal_clue", config_id, SEED, index)
            answer = "\n".join(f"{letter}. {name}" for letter, name in item.key.items())
            known = f"{item.prompt} {' '.join(item.options)}"
            yield Target("temporal_clue", Bounded(item).score, answer, known)


def of_basics() -> Iterator[Target]:
    """A question of each task of `basics`."""
    for task in basics.TASKS:
        item = basics.build(task, "few", SEED, 0)
        yield Target("basics", Bounded(item).score, item.answer)


def of_episodes() -> Iterator[Target]:
    """Episodes, whose right answer is their last turn; and a first turn of text before it."""
    for dataset, config_ids in episodes.tasks.items():
        for config_id in config_ids:
            began = episodes.begin(dataset, config_id, SEED, 0)
            yield Target("episodes", partial(played, began), began.answer)
            score = partial(_before, began, began.answer)
            yield Target("episodes, turn before", score, began.answer, free=True)
    for dataset in ("gcd", "chain_sum", "spell_backward", "aiw"):
        again = gym.begin(f"second_try.{dataset}", "easy", SEED, 0)
        yield Target("second_try", partial(played, again), again.answer)
        score = partial(_before, again, again.answer)
        yield Target("second_try, turn before", score, again.answer, free=True)


def of_task_sets(folder: Path) -> Iterator[Target]:
    """The example of a task set, where verifiers is installed."""
    if find_spec("verifiers") is None:
        return
    from swarm_node.environments.taskset.compile import compiled
    from swarm_node.environments.taskset.source import TasksetSource
    from swarm_node.settings.questions import TasksetConfig

    out = folder / "taskset.json"
    compiled(TasksetConfig(name=str(TASKSET)), out)
    source = TasksetSource(str(out))
    for index in range(4):
        item = source.build("taskset", "train", SEED, index)
        yield Target("taskset", Bounded(item).score, item.task.data.answer)


def targets(folder: Path, task_sets: bool = True) -> Iterator[Target]:
    """Questions of every environment but reasoning-gym, which `carried` asks."""
    yield from of_data_sets(folder)
    yield from of_puzzles()
    yield from of_basics()
    yield from of_episodes()
    if task_sets:
        yield from of_task_sets(folder)


def played(began: Playable, *texts: str) -> float:
    """The score of an episode of these turns; 0 where it is skipped."""
    turns = tuple(map(Turn, texts))
    found = playing.read(playing.play(began, [turns]), [turns])
    replay = found if isinstance(found, str) else found[0]
    return 0.0 if isinstance(replay, str) else replay.score


def _before(began: Playable, answer: str, said: str) -> float:
    return played(began, said, answer) if said.strip() not in ("", answer) else 0.0


def run(texts: dict[str, str], task_sets: bool = True) -> dict[str, Tally]:
    """The tally of each kind of environment."""
    results: dict[str, Tally] = {}
    with TemporaryDirectory() as folder:
        for target in targets(Path(folder), task_sets):
            tally, found = results.setdefault(target.name, Tally()), sweep(target, texts)
            tally.cases += found.cases
            tally.rewarded += found.rewarded
            tally.paid += found.paid
            tally.examples = [*tally.examples, *found.examples][:SHOWN]
    return results


def main() -> None:
    """Prints a line for each kind of environment, and what is paid."""
    parser = command.parser("lab.fuzzing.beside", __doc__)
    options = parser.parse_args()
    results = run(carriers())
    lines = [[n, str(t.cases), str(t.rewarded), str(t.paid)] for n, t in results.items()]
    command.show(["environment", "cases", "say only the answer", "paid"], lines)
    for name, tally in results.items():
        print(*(f"{name}: {example}" for example in tally.examples), sep="\n", end="")
    found = {
        "cases": sum(tally.cases for tally in results.values()),
        "paid": sum(tally.paid for tally in results.values()),
    }
    print(json.dumps(found))
    command.finish(options, found)


if __name__ == "__main__":
    main()
