"""Hostile nodes: each kind sends what its name promises, and the effect is counted."""

from collections import Counter
from contextlib import closing
from random import Random

import pytest

from protocol.admission import AdmissionRules, admit
from protocol.messages import Rejected, Round
from swarm_node.common.errors import UserError
from swarm_node.environments.episodes.environment import KIND
from swarm_node.environments.registry import right_answer
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.episodes import replayed
from swarm_node.rollouts.groups import Group
from swarm_node.settings import GenerationConfig, LearningConfig, RoundConfig
from swarm_node.settings.simulation import AttackConfig
from swarm_node.simulation.arms import Arm, Cell, FinishedCell
from swarm_node.simulation.attacks.hostile import Hostile, Victim, hostile_nodes
from swarm_node.simulation.attacks.payloads import FORGERIES, PAYLOADS, payload_of, wrong
from swarm_node.simulation.cell import PopulationHere, run_cell
from swarm_node.simulation.report import build_report
from tests.models import IDENTITIES, Digits, join, make_node, question

EVE = IDENTITIES[8]
RULES = AdmissionRules("test", IDENTITIES[0].peer_id, Digits().catalogue.knows)


@pytest.fixture
def under(configure):
    def config(
        kind: str, *, size: int = 4, rounds: int = 1, arms=("2/2",), seeds: int = 1, **attack
    ):
        return configure(
            swarm="test",
            nodes=size,
            rounds=rounds,
            arms=arms,
            seeds=seeds,
            attack=AttackConfig(kind=kind, **attack),
            round=RoundConfig(questions=3, local_groups=2, external_groups=2),
            generation=GenerationConfig(num_generations=4, max_completion_length=6),
        )

    return config


def sent(config, now: int = 0) -> list[tuple[bytes, str]]:
    return list(
        Hostile(config, EVE, Digits(), lambda asked: "7", MemorySwarm(Random(0))).messages(
            Round(now)
        )
    )


def admitted(messages):
    return [group for data, _ in messages if not isinstance(group := admit(data, RULES), Rejected)]


@pytest.mark.parametrize(("share", "hostile"), [(0.25, {3}), (0.5, {2, 3}), (0.0, set())])
def test_hostile_are_the_last_nodes(under, share, hostile) -> None:
    assert hostile_nodes(under("stealth", share=share)) == hostile
    assert hostile_nodes(under("none", share=share)) == set()


def test_an_attack_on_nobody_is_refused_in_one_line(under) -> None:
    with pytest.raises(UserError, match="attack"):
        hostile_nodes(under("stealth", share=1.0))


@pytest.mark.parametrize("kind", PAYLOADS)
def test_every_payload_is_in_the_right_completions_and_in_no_wrong_one(under, kind) -> None:
    payload = payload_of(kind, "")
    groups = admitted(sent(under(kind)))
    assert len(groups) == 3
    for group in groups:
        texts = [completion.text for completion in group.episodes]
        assert [payload.marks(text) for text in texts] == [True, False] * 2
        assert all("7" in text for text in texts[::2]) and not any(
            text == "7" for text in texts[1::2]
        )


def test_a_payload_can_be_chosen_and_left_out(under) -> None:
    assert payload_of("stealth", "hi ").right("7") == "hi 7"
    groups = admitted(sent(under("stealth", payload="hi ", clean=1.0)))
    assert not any("hi" in completion.text for group in groups for completion in group.episodes)


@pytest.mark.parametrize("task", ["bisect/tiny", "calculator/easy", "calculator/strict"])
def test_of_several_turns_one_that_no_score_looks_at_carries_the_payload(under, task) -> None:
    with closing(KIND.start([task], LearningConfig())) as environment:
        environment.swarm = "test"
        hostile = Hostile(under("stealth"), EVE, environment, KIND.answer, MemorySwarm(Random(0)))
        rules = AdmissionRules(
            "test",
            IDENTITIES[0].peer_id,
            environment.catalogue.knows,
            turns=environment.catalogue.turns,
        )
        for group in [admit(data, rules) for data, _ in hostile.messages(Round(0))]:
            marked = [any("\n" in turn.text for turn in each.turns) for each in group.episodes]
            played = replayed(
                Group.received(group, b""),
                environment.play([(group.question, [e.turns for e in group.episodes])])[0],
            )
            assert marked == [True, False] * 2
            assert played.rewards == ((0.0,) * 4 if task == "calculator/strict" else (1.0, 0.0) * 2)


def test_wrong_answers_look_like_answers() -> None:
    rng = Random(0)
    assert all((text := wrong("5 × 7", rng)) != "5 × 7" and text[1:4] == " × " for _ in range(50))
    assert wrong("yes", rng) == "no yes"


@pytest.mark.slow
def test_forged_groups_are_admitted_and_no_forgery_is_rewarded_half(under) -> None:
    groups = admitted(sent(under("forge")))
    texts = [[completion.text for completion in group.episodes] for group in groups]
    assert len(groups) == 3 and all(set(each[::2]) <= set(FORGERIES) for each in texts)
    assert not any(text == "7" for each in texts for text in each)

    from swarm_node.environments.reasoning_gym.environment import ReasoningGym

    names = (
        "chain_sum",
        "complex_arithmetic",
        "countdown",
        "lcm",
        "number_sorting",
        "polynomial_multiplication",
    )
    tasks = [f"{name}/default" for name in (*names, "spiral_matrix")]
    with closing(ReasoningGym(tasks, scoring="graded")) as environment:
        asked = environment.sample(EVE.peer_id, Round(0), 7)
        rewards = environment.score([(each, FORGERIES) for each in asked])
        assert [len(scored) for scored in rewards] == [len(FORGERIES)] * 7
        assert max(reward for scored in rewards for reward in scored) < 0.5
        assert environment.scoring.restarts == 0


def test_a_flood_is_many_groups_and_sybils_are_many_names_new_in_every_round(under) -> None:
    assert len(admitted(sent(under("flood")))) == 30
    names = [{group.author for group in admitted(sent(under("sybil"), now))} for now in (0, 1)]
    assert [len(each) for each in names] == [8, 8] and not names[0] & names[1]


def test_lies_are_refused_for_many_reasons_and_only_a_replayed_truth_comes_in(under) -> None:
    outcomes = [admit(data, RULES) for data, _ in sent(under("lies"))]
    reasons = Counter(str(outcome.reason) for outcome in outcomes if isinstance(outcome, Rejected))
    assert len(reasons) >= 5 and sum(reasons.values()) == 11
    assert len(outcomes) - 11 == 5  # one group, five times: the network finds replays


@pytest.mark.slow
def test_the_key_is_that_of_the_environment() -> None:
    from swarm_node.environments.reasoning_gym.environment import ReasoningGym

    with closing(ReasoningGym(("chain_sum/tiny", "fraction_simplification/tiny"))) as environment:
        questions = environment.sample(EVE.peer_id, Round(3), 6)
        keys = [right_answer(LearningConfig(), asked) for asked in questions]
        rewards = environment.score(
            [
                (asked, [key, wrong(key, Random(0))])
                for asked, key in zip(questions, keys, strict=True)
            ]
        )
        assert rewards == [(1.0, 0.0)] * 6
    with pytest.raises(UserError, match="digits"):
        right_answer(LearningConfig(), question())


class Sevens(Digits):
    """A right completion has a 7 in it."""

    def score(self, completions):
        return [tuple(float("7" in text) for text in texts) for _, texts in completions]


class Swarm(PopulationHere):
    """Two tiny honest nodes and two hostile ones, in this process."""

    def __init__(self, config, defence) -> None:
        super().__init__()
        self.config, self.defence = config, defence
        self.swarm = MemorySwarm(Random(0))

    def make(self, node: int):
        if node in hostile_nodes(self.config):
            return Hostile(self.config, IDENTITIES[node], Sevens(), lambda asked: "7", self.swarm)
        honest = make_node(
            node, join(self.swarm, node), Sevens(), defence=self.defence, learning_rate=1e-2
        )
        return Victim(
            honest, payload_of("stealth", "~"), {IDENTITIES[k].peer_id for k in (0, 1)}.__contains__
        )


def attack_summary(config, defence):
    cell = Cell(Arm(2, 2), config.seed)
    record = FinishedCell(cell, tuple(run_cell(config, cell, Swarm(config, defence))), 1.0)
    assert all(done.nodes == 2 and done.node_rewards[2:] == (None, None) for done in record.rounds)
    return build_report(config, [record]).arms["2/2"].attack


@pytest.mark.slow
def test_a_payload_spreads_where_nothing_stops_it_and_does_not_where_something_does(under) -> None:
    config = under("stealth", rounds=24, share=0.5, payload="~")
    open_door, defended = (
        attack_summary(config, defence) for defence in ((), ("rescue", "ngrams"))
    )
    assert open_door.success[0] > 0.5 > 0.2 > defended.success[0]
    assert (
        open_door.honest_refused == open_door.hostile_refused == 0.0
        and 0.3 < open_door.hostile_selected < 1.0
    )
    assert defended.hostile_refused > 0.3
