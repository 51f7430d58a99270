"""A node's round with real parts: what it asks, what it trains on, what it counts."""

from dataclasses import replace
from functools import partial
from itertools import count
from random import Random

import pytest
import torch

from protocol.messages import Round
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.round import Node, score_external
from swarm_node.rollouts.groups import Skipped
from swarm_node.rollouts.scoring_ahead import ScoringAhead
from tests.models import GENERATION, IDENTITIES, Digits, join, make_node, weights_of


def writer_and_reader(environment: Digits | None = None, **options) -> tuple[Node, Node]:
    """Node 0, and node 1 with this environment and these options, in one swarm."""
    swarm = MemorySwarm(Random(0))
    return make_node(0, join(swarm, 0)), make_node(
        1, join(swarm, 1), environment or Digits(), **options
    )


def texts_of(scored) -> list[str]:
    return [completion.text for completion in scored.episodes]


def test_a_round_alone_asks_generates_scores_and_trains() -> None:
    node = make_node(external=0)
    before = weights_of(node)
    report = node.run_round(Round(0))
    assert (
        report.peer_id == IDENTITIES[0].peer_id
        and report.rollouts == 3 * GENERATION.num_generations
    )
    assert report.generated_tokens == pytest.approx(report.mean_length * report.rollouts)
    assert 0 < report.reward < 1 and report.reward_by_task == {
        "sums/easy": pytest.approx(report.reward)
    }
    assert (report.local_groups, report.external_informative) == (
        2,
        0,
    ) and report.step.optimizer_steps == 1
    assert report.skipped == report.rejected == {}
    assert set(report.seconds) == {"generate", "score", "publish", "collect", "train"}
    assert all(seconds > 0 for seconds in report.seconds.values())
    assert not all(map(torch.equal, before, weights_of(node)))


@pytest.mark.slow
def test_a_node_that_trains_alone_learns_its_task() -> None:
    node = make_node(external=0, local=4, questions=4)
    rewards = [node.run_round(Round(now)).reward for now in range(40)]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.3


def test_nodes_with_the_same_weights_seed_and_prompt_generate_other_completions_each_round() -> (
    None
):
    class Same(Digits):
        def prompts(self, questions):
            return ["1:" for _ in questions]

    def texts(number: int, now: int) -> list[str]:
        own = make_node(number, environment=Same()).produce(Round(now))
        return [text for group in own.groups for text in texts_of(group)]

    assert texts(0, 0) == texts(0, 0) and texts(0, 0) != texts(1, 0) and texts(0, 0) != texts(0, 1)


class Wordy(Digits):
    """The prompt of question 0 is longer than the context."""

    def prompts(self, questions):
        return ["x" * 500, *super().prompts(questions)[1:]]


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (Digits(refuse_prompt=frozenset({1})), "prompt cannot be built"),
        (Wordy(), "prompt longer than the context"),
    ],
)
def test_a_question_that_cannot_be_asked_is_counted_and_the_others_are_asked(
    environment, reason
) -> None:
    report = make_node(environment=environment).run_round(Round(0))
    assert report.skipped == {reason: 1} and report.rollouts == 2 * GENERATION.num_generations
    assert report.step.optimizer_steps == 1


class Strict(Digits):
    """Only the first completion of question 1 is right."""

    def score(self, groups):
        return [
            tuple(float(asked.index == 1 and k == 0) for k, _ in enumerate(texts))
            for asked, texts in groups
        ]


@pytest.mark.parametrize(
    ("environment", "skipped"),
    [(Digits(refuse_score=frozenset({0, 2})), {"scoring failed": 2}), (Strict(), {})],
)
def test_a_group_that_cannot_be_scored_or_is_uninformative_is_not_published(
    environment, skipped
) -> None:
    swarm = MemorySwarm(Random(0))
    listener = join(swarm, 1)
    assert make_node(0, join(swarm, 0), environment).run_round(Round(0)).skipped == skipped
    assert [group.question.index for group in listener.collect(Round(0))] == [1]


def test_a_round_in_which_nothing_works_is_a_round_with_nothing() -> None:
    node = make_node(
        environment=Digits(refuse_prompt=frozenset({0}), refuse_score=frozenset({1, 2}))
    )
    before = weights_of(node)
    report = node.run_round(Round(0))
    assert (report.rollouts, report.local_groups, report.step.optimizer_steps) == (0, 0, 0)
    of_nothing = (report.reward, report.mean_length, report.ended_share, report.informative_share)
    assert {
        *of_nothing,
        report.external_reward,
        report.step.entropy,
        report.step.mismatch_mean,
    } == {None}
    assert report.skipped == {"prompt cannot be built": 1, "scoring failed": 2}
    assert all(map(torch.equal, before, weights_of(node)))


def test_external_groups_are_scored_here_and_used_once() -> None:
    writer, reader = writer_and_reader(external=8)
    writer.produce(Round(0))
    own = reader.produce(Round(0))
    assert isinstance(reader.environment, Digits)
    reader.environment.scored.clear()
    batch = reader.select(own)
    scored = [asked.seed for asked, _ in reader.environment.scored]
    assert len(scored) == 3
    assert all(
        group.author == writer.peer_id and group.informative and group.tokens is None
        for group in batch.external
    )
    assert batch.external
    assert len(reader.inbox) == 0  # three were there, eight were wanted: all are spent
    report = reader.train(batch)
    assert report.external_informative == len(batch.external)
    reader.environment.scored.clear()
    reader.select(reader.produce(Round(1)))
    assert writer.peer_id not in {asked for asked, _ in reader.environment.scored}
    assert all(asked.seed not in scored for asked, _ in reader.environment.scored)


def test_rewards_are_those_of_the_reader_whatever_the_writer_believes() -> None:
    class Generous(Digits):
        def score(self, completions):
            return [tuple(1.0 for _ in texts) for _, texts in completions]

    writer, reader = writer_and_reader(external=3)
    assert replace(writer, environment=Generous()).run_round(Round(0)).reward == 1.0
    for group in reader.select(reader.produce(Round(0))).external:
        assert list(group.rewards) == [
            float(any(c.isdigit() for c in text)) for text in texts_of(group)
        ]


def test_an_external_group_that_cannot_be_scored_here_is_dropped_and_counted() -> None:
    writer, reader = writer_and_reader(Digits(refuse_score=frozenset({0})), external=5)
    faults = {}
    reader.network.verdict = lambda group, useful, fault: faults.update(
        {group.question.index: fault}
    )
    writer.produce(Round(0))
    batch = reader.select(reader.produce(Round(0)))
    assert faults.pop(0) == "scoring failed" and not any(faults.values()), (
        "the network knows whose fault it was"
    )
    assert (batch.generated.skipped, batch.skipped) == (
        {"scoring failed": 1},
        {"scoring failed": 1},
    )
    assert len(reader.inbox) == 0
    assert all(group.question.index for group in batch.external)


def test_the_same_seed_trains_the_same_weights_bit_for_bit() -> None:
    def train(seed: int):
        node = make_node(seed=seed, external=0, num_iterations=2)
        rewards = [node.run_round(Round(now)).reward for now in range(3)]
        return rewards, weights_of(node)

    first, again, other = train(1), train(1), train(2)
    assert first[0] == again[0] and all(map(torch.equal, first[1], again[1]))
    assert not all(map(torch.equal, first[1], other[1]))


def test_with_rescue_a_round_answers_questions_of_others_and_trains_on_the_better_answers() -> None:
    swarm = MemorySwarm(Random(0))
    writer = make_node(0, join(swarm, 0))
    written = {
        scored.question: scored for scored in writer.produce(Round(0)).groups if scored.informative
    }
    hard = min(written, key=lambda asked: asked.index)

    class Hard(Digits):
        """One of the writer's questions is beyond the reader, who knows the others."""

        def score(self, completions):
            results = super().score(completions)
            return [
                result
                if asked.seed != hard.seed or list(said) == texts_of(written[asked])
                else (float(asked != hard),) * 4
                for (asked, said), result in zip(completions, results, strict=True)
            ]

    reader = make_node(
        1, join(swarm, 1), Hard(), external=3, questions=5, defence=("rescue",), seed=1
    )
    writer.network.publish([scored.message() for scored in written.values()], Round(0))
    first = reader.select(reader.produce(Round(0)))
    assert (first.external, len(first.considered), len(first.generated.groups)) == (
        [],
        len(written),
        5,
    )
    assert len(first.local) == 5, (
        "local groups take the places of groups that have no local answers yet"
    )
    own = reader.produce(Round(1))
    assert {group.question for group in own.answers} == set(written)
    assert len(own.groups) == 5 - len(written), "answers take the places of own questions"
    batch = reader.select(own)
    assert {group.question for group in batch.external} == set(written)
    for group in batch.external:
        external = [sample.external for sample in group.samples]
        assert external[:4] == [False] * 4 and all(external[4:]) and len(external) <= 6
        assert (len(external) > 4) == group.from_others == (group.question == hard)
        assert all(reward == 1.0 for reward in group.rewards[4:]) and group.author == writer.peer_id
    assert batch.skipped == {"no better than local": len(written) - 1}
    report = reader.train(batch)
    assert (report.external_informative, report.external_by_peer[writer.peer_id]["trained"]) == (
        1,
        1,
    )
    assert report.rollouts == 5 * GENERATION.num_generations, (
        "answers to others' questions are generated, too"
    )
    assert reader.produce(Round(2)).answers == [], "a question is answered once"


def test_what_the_defence_refuses_is_counted_and_named(monkeypatch) -> None:
    monkeypatch.setattr("swarm_node.rollouts.defence.longest", lambda own: 0.0)
    writer, reader = writer_and_reader(external=3, defence=("length",))
    writer.produce(Round(0))
    batch = reader.select(reader.produce(Round(0)))
    assert batch.external == [] and batch.refused
    assert {refused.author for refused in batch.refused} == {writer.peer_id}
    assert reader.train(batch).skipped == {"longer than local": len(batch.refused)}


def test_a_specialist_compares_what_others_write_with_its_own_answers_to_their_questions_too(
    monkeypatch,
) -> None:
    """Compared with its own tasks' answers alone, which look different, `ngrams` refused 190 groups
    of 205.
    """
    compared = []
    monkeypatch.setattr(
        "swarm_node.rollouts.defence.longest", lambda own: compared.append(own) or 99.0
    )
    writer, reader = writer_and_reader(external=3, defence=("length", "rescue"))
    for now in range(2):
        writer.produce(Round(now))
        own = reader.produce(Round(now))
        reader.select(own)
    assert own.answers and compared[-1] == own.groups + own.answers


def test_the_network_is_told_what_its_groups_were_worth() -> None:
    class Half(Digits):
        """Question 0 of another node gets only zeros here: its group is uninformative."""

        def score(self, completions):
            rewards = [
                tuple(float(k == 0) for k, _ in enumerate(texts)) for _, texts in completions
            ]
            mine = make_node(1).environment.sample(IDENTITIES[1].peer_id, Round(0), 1)[0].seed
            return [
                rewards[n] if asked.index or asked.seed == mine else tuple(0.0 for _ in texts)
                for n, (asked, texts) in enumerate(completions)
            ]

    writer, reader = writer_and_reader(Half(), external=8)
    told = []
    reader.network.verdict = lambda group, useful, fault: told.append(
        (group.question.index, useful)
    )
    shared = {
        scored.question.index for scored in writer.produce(Round(0)).groups if scored.informative
    }
    reader.select(reader.produce(Round(0)))
    assert sorted(told) == [(index, index != 0) for index in sorted(shared)] and told


def test_local_groups_take_the_places_of_external_ones_that_are_not_there() -> None:
    writer, reader = writer_and_reader(local=1, external=2)
    assert len(reader.select(reader.produce(Round(0))).local) == 3
    writer.network.publish([writer.produce(Round(1)).groups[0].message()], Round(2))
    batch = reader.select(reader.produce(Round(1)))
    assert batch.external and len(batch.local) + len(batch.external) == 3


def test_an_arm_of_a_simulation_stays_what_it_is_without_company() -> None:
    node = replace(make_node(local=1, external=2), fill_with_local=False)
    assert len(node.select(node.produce(Round(0))).local) == 1


class Hanging(Digits):
    """External groups hang the scorer."""

    def score(self, completions):
        mine = {
            make_node(1).environment.sample(IDENTITIES[1].peer_id, Round(now), 1)[0].seed
            for now in range(4)
        }
        results = super().score(completions)
        return [
            result if asked.seed in mine else Skipped("scoring timeout")
            for (asked, _), result in zip(completions, results, strict=True)
        ]


def test_after_a_group_that_hung_its_author_s_others_leave_the_inbox() -> None:
    swarm = MemorySwarm(Random(0))
    writer, reader = (
        make_node(0, join(swarm, 0), questions=8),
        make_node(1, join(swarm, 1), Hanging(), external=1),
    )
    assert sum(scored.informative for scored in writer.produce(Round(0)).groups) > 2
    batch = reader.select(reader.produce(Round(0)))
    assert (batch.external, dict(batch.skipped), len(reader.inbox)) == (
        [],
        {"scoring timeout": 1},
        0,
    )
    writer.produce(Round(1))
    assert reader.select(reader.produce(Round(1))).skipped == {}, (
        "nothing of that author is taken in"
    )


def test_a_node_that_scores_ahead_selects_what_is_scored_and_waits_for_nothing() -> None:
    """Selection once scored external groups one after another, and each took as long as its author
    liked.
    """
    swarm, asked = MemorySwarm(Random(0)), []
    writer, reader = (
        make_node(0, join(swarm, 0), questions=8),
        make_node(1, join(swarm, 1), external=2),
    )
    ahead = ScoringAhead(partial(score_external, Digits()), map(float, count()).__next__, Random(0))
    reader = replace(reader, external=ahead)
    writer.produce(Round(0))
    generated = reader.produce(Round(0))
    reader.environment.score = asked.append
    assert reader.select(generated).external == [] and len(reader.inbox) > 2
    for _ in range(9):  # budget is earned round by round
        while ahead.work():
            pass
        ahead.candidates(reader.inbox, 2, [])
    batch = reader.select(generated)
    assert (len(batch.external), len(batch.local), asked) == (2, 2, [])
