"""Several environments as one."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing

import pytest

from protocol.messages import Call, PeerId, Question, Round, Turn
from swarm_node.common.errors import UserError
from swarm_node.environments.kinds import EVALUATION
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import Mixture
from swarm_node.rollouts.groups import Catalogue, Plays, Skipped, ToPlay
from swarm_node.rollouts.interfaces import Environment, Generator
from swarm_node.scoring import contract
from swarm_node.settings import EnvironmentConfig, LearningConfig
from tests.groups import lifted

AUTHOR = PeerId("12D3KooWAlice")


class Named:
    """Rewards its own name; a stand-in for an environment, not a mock of one."""

    notes = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        about = {
            "environment": self.name,
            "version": "1",
            "dataset": "d",
            "config_id": "c",
            "digest": "A" * 11,
        }
        return [Question(seed=now, index=k, **about) for k in range(count)]

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue({self.name: ("1", {"d": ("c",)})})

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return [f"{self.name} {question.index}" for question in questions]

    def score(
        self, completions: Sequence[tuple[Question, Sequence[str]]]
    ) -> list[tuple[float, ...] | Skipped]:
        return [tuple(float(text == self.name) for text in texts) for _, texts in completions]

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return lifted(self.score, asked)

    def close(self) -> None:
        pass


def test_questions_are_shared_out_evenly_and_the_rest_in_turn() -> None:
    mixture = Mixture({name: Named(name) for name in "abc"})
    rounds = [mixture.sample(AUTHOR, Round(now), 7) for now in range(3)]
    counts = Counter(question.environment for each in rounds for question in each)
    assert list(map(len, rounds)) == [7] * 3 and counts == {"a": 7, "b": 7, "c": 7}


def test_each_question_goes_to_its_environment_and_comes_back_in_order() -> None:
    one, two = Named("one"), Named("two")
    mixture = Mixture({"one": one, "two": two})
    a, b = one.sample(AUTHOR, Round(0), 2), two.sample(AUTHOR, Round(0), 2)
    stray = Named("stray").sample(AUTHOR, Round(0), 1)[0]
    questions = [b[0], a[0], stray, a[1], b[1]]
    of_one, of_two, unknown = (1.0, 0.0), (0.0, 1.0), Skipped("unknown question")
    assert mixture.prompts(questions) == ["two 0", "one 0", unknown, "one 1", "two 1"]
    scores = mixture.score([(question, ["one", "two"]) for question in questions])
    assert scores == [of_two, of_one, unknown, of_one, of_two]
    assert mixture.catalogue.knows(a[0]) and not mixture.catalogue.knows(stray)
    assert not mixture.catalogue.knows(a[0].model_copy(update={"version": "2"}))


def test_a_question_has_one_way_to_be_played_whatever_its_turns() -> None:
    names = {name for name in dir(Environment) if not name.startswith("_")}
    assert names == {"catalogue", "close", "play", "prompts", "sample"}
    assert {name for name in dir(Generator) if not name.startswith("_")} == {
        "close",
        "decoder_name",
        "encode_observations",
        "open",
    }
    assert (contract.Turn, contract.Call) == (Turn, Call)
    tasks = ("gcd/tiny", "bisect/tiny")
    with closing(
        build_environment(LearningConfig(environment=EnvironmentConfig(tasks=tasks)))
    ) as mixture:
        asked = mixture.sample(AUTHOR, Round(0), 4)
        assert {mixture.catalogue.turns(question) for question in asked} == {1, 6}
        plays = mixture.play([(question, [(Turn("x"),), (Turn("y"),)]) for question in asked])
        rewards = mixture.score([(question, ["x", "y"]) for question in asked])
        assert [[each.score for each in played] for played in plays] == list(map(list, rewards))


class Raising(Named):
    def score(
        self, completions: Sequence[tuple[Question, Sequence[str]]]
    ) -> list[tuple[float, ...] | Skipped]:
        raise ZeroDivisionError("a bug of the environment")

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        raise UserError("its score is not installed")


def test_an_environment_that_raises_costs_its_groups_and_no_others() -> None:
    mixture = Mixture({"good": Named("good"), "bad": Raising("bad")})
    questions = mixture.sample(AUTHOR, Round(0), 4)
    scores = mixture.score([(question, ["good", "bad"]) for question in questions])
    assert scores == [(1.0, 0.0)] * 2 + [Skipped("environment raised ZeroDivisionError")] * 2


def test_a_mistake_of_the_user_is_not_taken_for_a_bug_of_the_environment() -> None:
    mixture = Mixture({"a": Raising("a")})
    with pytest.raises(UserError, match="not installed"):
        mixture.prompts(mixture.sample(AUTHOR, Round(0), 1))


def test_a_task_that_is_learned_makes_room_for_the_next_and_comes_back_when_it_is_forgotten() -> (
    None
):
    names = ("gcd/easy", "lcm/easy", "chain_sum/easy")
    mixture = build_environment(
        LearningConfig(environment=EnvironmentConfig(tasks=names, at_once=2))
    )

    def asked(author: PeerId) -> list[str]:
        return sorted(
            {f"{each.dataset}/{each.config_id}" for each in mixture.sample(author, Round(3), 12)}
        )

    for rewards, chosen in (
        ({}, names[:2]),
        ({"gcd/easy": 0.9, "lcm/easy": 0.89}, names[1:]),
        ({"gcd/easy": 0.5, "lcm/easy": 0.95}, ("gcd/easy", "chain_sum/easy")),
        ({"gcd/easy": 0.9, "lcm/easy": 1.0}, ("chain_sum/easy",)),
        (dict.fromkeys(names, 1.0), names),
    ):
        assert mixture.choose(rewards) == chosen
        assert asked(AUTHOR) == sorted(chosen) and asked(EVALUATION) == sorted(names)
    mixture.close()
