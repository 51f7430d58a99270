"""Which scorers share a child, and that only the group at which a shared child hangs or dies gets
no score.
"""

import ctypes
import os
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from swarm_node.environments.reasoning_gym.scorers import scorers
from swarm_node.scoring import children, server
from swarm_node.scoring.children import ForkServer, Task
from swarm_node.scoring.sandbox import Sandbox
from swarm_node.scoring.server import Asked

OURS = "swarm_node.environments.reasoning_gym.scorers"
TEXTS = ("right", "wrong")
SCORES, CRASHED, TIMEOUT = (
    [1.0, 0.0],
    {"skipped": "scoring crashed"},
    {"skipped": "scoring timeout"},
)


def die(answer: str, entry: object) -> float:
    ctypes.string_at(0)
    return 1.0


def hang(answer: str, entry: object) -> float:
    while True:
        pass


class Question:
    """Our scorer of the data set's name scores its answers; if there is none, `score` does."""

    prompt = "?"

    def __init__(self, dataset: str) -> None:
        ours = dataset in scorers.SCORERS
        self.portable = (
            (dataset, {"answer": "right", "metadata": {"valid_answers": ["right"]}})
            if ours
            else None
        )

    def score(self, text: str) -> float:
        return float(text == "right")


class Watched(ForkServer):
    """A real fork server that notes which scorers share each child."""

    def score(self, tasks: Sequence[Task]) -> list[Any]:
        self.shared.append([name for (name, _), _ in tasks])
        return super().score(tasks)


@pytest.fixture
def scored(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[Sequence[Asked]], tuple[list[Any], list[list[str]]]]]:
    bad = {"die": scorers.Scorer(die), "hang": scorers.Scorer(hang)}
    monkeypatch.setattr(scorers, "SCORERS", {**scorers.SCORERS, **bad})
    monkeypatch.setattr(scorers, "PLAIN", scorers.PLAIN | {"die", "hang"})
    sandbox, (end, lifeline) = Sandbox(), os.pipe()
    light = Watched(scorers, sandbox, 1.0, end)
    light.shared = []
    source = types.SimpleNamespace(VERSION="1", build=lambda dataset, *address: Question(dataset))
    scoring = server.ScoringServer(source, sandbox, light, 1.0)
    yield lambda asked: (scoring.replies(asked), light.shared)
    light._connection.close()
    while children._ended:  # killed children of this process
        children.reap()
    for descriptor in (end, lifeline):
        os.close(descriptor)


def asked_of(dataset: str, author: int) -> Asked:
    """`author` stands for the seed, which is a digest of author and round."""
    return (dataset, "tiny", author, 0), TEXTS


def test_plain_scorers_share_a_child_and_no_other_scorer_shares_one_with_another_author(
    scored,
) -> None:
    asked = [
        *(asked_of("gcd", 1), asked_of("n_queens", 1), asked_of("string_insertion", 1)),
        *(asked_of("lcm", 2), asked_of("string_insertion", 2), asked_of("library", 2)),
        *(asked_of("gcd", 3), asked_of("string_insertion", 1), asked_of("library", 3)),
    ]
    replies, shared = scored(asked)
    assert replies == [SCORES] * 9
    assert shared == [
        ["gcd", "n_queens", "lcm", "gcd"],
        ["string_insertion"] * 2,
        ["string_insertion"],
    ]
    companies = {
        server.cohort((name, "tiny", seed, 0), Question(name), scorers)
        for name in ("gcd", "library")
        for seed in (1, 2)
    }
    assert companies == {("forkserver", None), ("here", 1), ("here", 2)}


def test_where_the_environment_has_no_scorers_its_items_score_in_a_child_per_author() -> None:
    source = types.SimpleNamespace(VERSION="1", build=lambda dataset, *address: Question(dataset))
    scoring = server.ScoringServer(source, Sandbox(), None, 1.0)
    assert (
        scoring.replies([asked_of("gcd", 1), asked_of("gcd", 2), asked_of("library", 1)])
        == [SCORES] * 3
    )
    assert server.cohort(("gcd", "tiny", 7, 0), Question("gcd"), None) == ("here", 7)
    while children._ended:
        children.reap()


@pytest.mark.slow
def test_who_kills_or_stalls_a_shared_child_is_alone_in_having_no_score(scored) -> None:
    asked = [
        asked_of(name, author)
        for author, name in enumerate(("gcd", "die", "lcm", "hang", "ab", "die", "gcd"))
    ]
    replies, shared = scored(asked)
    assert replies == [SCORES, CRASHED, SCORES, TIMEOUT, SCORES, CRASHED, SCORES]
    assert len(shared) == 1, "one call, whose rest went to other children"
    assert scored([asked_of("gcd", 1)])[0] == [SCORES]


def used(*functions: types.FunctionType) -> set[str]:
    """Names that these functions use, or their helpers: in a closure, in their module or in another
    of ours.
    """
    waiting, seen = [*functions], dict[types.CodeType, set[str]]()
    while waiting:
        function = waiting.pop()
        codes, names = [function.__code__], set[str]()
        for code in codes:
            names |= {*code.co_names}
            codes += [const for const in code.co_consts if isinstance(const, types.CodeType)]
        seen[function.__code__] = names
        known = [function.__globals__.get(name) for name in names]
        known += [
            getattr(each, name, None)
            for each in known
            if isinstance(each, types.ModuleType)
            for name in names
        ]
        known += [cell.cell_contents for cell in function.__closure__ or ()]
        helpers = [
            each
            for each in known
            if isinstance(each, types.FunctionType) and each.__module__.startswith(OURS)
        ]
        waiting += [each for each in helpers if each.__code__ not in seen]
    return set[str]().union(*seen.values())


@pytest.mark.parametrize("name", sorted(scorers.SCORERS))
def test_a_plain_scorer_hands_an_answer_to_no_parser(name: str) -> None:
    scorer = scorers.SCORERS[name]
    names = used(scorer.score, scorer.written)
    assert bool(names & {"ast", "json", "bounded_json", "eval", "exec", "compile"}) == (
        name not in scorers.PLAIN
    )
