"""A part of `lab.fuzzing.hostile`, through real scoring processes: data sets whose library scorer
evaluates the answer, and plain ones.
"""

import pytest

from lab.fuzzing import hostile
from lab.fuzzing.hostile_answers import answers, counts
from lab.fuzzing.right_answers import right_answer
from lab.fuzzing.targets import ENTRY
from swarm_node.environments.reasoning_gym.catalogue import CATALOGUE
from swarm_node.environments.reasoning_gym.environment import PARTIAL
from swarm_node.environments.reasoning_gym.scorers.scorers import SCORERS, score
from swarm_node.environments.reasoning_gym.source import LibraryItem
from swarm_node.environments.rewards import RewardRule

REWARDED = RewardRule("graded", PARTIAL).reward


EXECUTE = ["string_insertion", "countdown"]  # the library evaluates the answer
PLAIN = ["chain_sum", "knights_knaves"]


def test_the_corpus_has_more_than_a_hundred_answers() -> None:
    assert sum(counts().values()) >= 190 and len(counts()) == 6


@pytest.mark.slow
def test_nothing_hostile_is_rewarded_or_leaves_a_trace() -> None:
    results = hostile.run([*EXECUTE, *PLAIN], only=7)
    assert hostile.summary(results)["broken"] == {} and hostile.summary(results)["forged"] == {}
    assert all(tally.answers == 42 for by_mode in results.values() for tally in by_mode.values())


@pytest.mark.slow
def test_nothing_hostile_is_worth_half_alone_behind_a_right_answer_or_before_it() -> None:
    """The first configuration of every data set of the catalogue is tested, without the sandbox
    that `lab.fuzzing.hostile` has.
    """
    texts = hostile.some(answers("/nonexistent", 1), 8)
    forged = {}
    for name, levels in CATALOGUE.items():
        for index in range(64):
            item = LibraryItem(name, next(iter(levels.values())), hostile.SEED, index)
            if (key := right_answer(name, item.dataset, item.entry)) is not None:
                break
        for label, text in texts.items():
            for said in (text, f"{key} {text}", f"{key}\n{text}", f"{text} {key}"):
                if REWARDED(item.score(said)) >= 0.5 and not hostile.same(said, str(key)):
                    forged[name, label] = said
    assert forged == {} and len(texts) == 48


def test_our_own_scorers_neither_raise_nor_reward_any_of_it() -> None:
    """Without a sandbox, so that faults show: these scorers at most parse an answer, and never run
    it.
    """
    texts = answers("/nonexistent", 1)
    entry = {"metadata": ENTRY["metadata"] | {"numbers": [2, 3, 5, 7], "target": 1000}}
    keys = {
        "number_sorting": "['1.0', '2.5']",
        "prime_factorization": "2 × 3",
        "coin_flip": "0.125",
    }
    for name, scorer in SCORERS.items():
        asked = entry | {"answer": keys.get(name, "swordfish")}
        scored = {label: REWARDED(score(scorer, text, asked)) for label, text in texts.items()}
        assert {label: score for label, score in scored.items() if not 0 <= score < 0.5} == {}, name


def test_the_library_s_forgeries_are_known_to_be_worth_nothing() -> None:
    """Each was scored in full by the library's own scorer."""
    cases = {
        "complex_arithmetic": ("nan", "3.0 + 4.0i", {"result": [3, 4]}),
        "number_sorting": ("[NaN, NaN]", "['1.0', '2.5']", {}),
        "puzzle24": ("6*4*1*1", "", {"numbers": [5, 6, 1, 6]}),
        "countdown": ("0xfd+0x0*(2+3)", "", {"numbers": [2, 3], "target": 253}),
        "game_of_life_halting": ("anything", "False", {}),
        "coin_flip": ("0", "0.234375", {}),
    }
    for name, (forged, key, metadata) in cases.items():
        assert (
            REWARDED(score(SCORERS[name], forged, {"answer": key, "metadata": metadata})) < 0.5
        ), name
    assert set(cases) <= set(CATALOGUE)
