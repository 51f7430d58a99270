"""Episodes turn by turn: what is kept of each turn, where an episode ends, and what trains on
it.
"""

from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from random import Random

import pytest
import torch

from protocol.messages import Round, Turn
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.stops import Stops
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.episodes import complete
from swarm_node.node.waiting import read_waiting, write_waiting
from swarm_node.policy.batch import tokenise
from swarm_node.policy.llama.llama_decoder import LlamaDecoder
from swarm_node.rollouts.groups import Catalogue, Group, Skipped, Tokens
from swarm_node.rollouts.transcript import parse, results
from swarm_node.settings import GenerationConfig
from tests.groups import episodes_of, scored, tokens_of
from tests.models import (
    MANY_EOS,
    Digits,
    Guessing,
    join,
    make_node,
    plain_log_probs,
    question,
    text_group,
    tiny_policy,
)

QUESTIONS = [
    Group("ann", Round(0), question(index=index), prompt=prompt)
    for index, prompt in enumerate(("guess:", "again, guess:"))
]


@pytest.fixture(scope="module")
def policy():
    return tiny_policy("Llama", eos=MANY_EOS)


def played(
    policy, environment=None, asked=QUESTIONS, tokens: int = 6, size: int = 6, decoder=LlamaDecoder
) -> list[Group | Skipped]:
    generator = BatchGenerator(policy, GenerationConfig(max_completion_length=tokens))
    generator._decoder_type = decoder
    return complete(environment or Guessing(), generator, asked, size, "s")


def parts(policy, tokens) -> list[tuple[bool, str]]:
    """The runs of the mask: whether the policy wrote the run, and its text without end tokens."""
    pairs = zip(tokens.mask or (True,) * len(tokens.ids), tokens.ids, strict=True)
    runs = [(own, [token for _, token in run]) for own, run in groupby(pairs, itemgetter(0))]
    return [
        (own, policy.decode([[i for i in ids if i not in policy.eos_ids]])[0]) for own, ids in runs
    ]


def test_an_episode_keeps_its_ids_log_probs_and_text_turn_by_turn(policy) -> None:
    groups, lengths = played(policy), set()
    for group in groups:
        for episode, tokens in zip(episodes_of(group), tokens_of(group), strict=True):
            replay = Guessing()._played(episode.turns)
            lengths.add(len(episode.turns))
            assert episode.trace == ("" if episode.single else replay.trace)
            runs = parts(policy, tokens)
            assert [parse(text) for own, text in runs if own] == list(episode.turns)
            said = [results(each) for each in replay.observations]
            assert [text for own, text in runs if not own] == said[: len(episode.turns) - 1]
            mask = torch.tensor(tokens.mask or (True,) * len(tokens.ids))
            with torch.no_grad():
                now = plain_log_probs(policy.model, group.prompt_ids, tokens.ids)
            torch.testing.assert_close(
                torch.tensor(tokens.log_probs)[mask], now[mask], atol=1e-5, rtol=1e-4
            )
            assert not torch.tensor(tokens.log_probs)[~mask].any()
            assert len(tokens.versions) == len(tokens.ids)
    assert {1, 4} < lengths
    assert played(policy) == groups


def test_a_turn_is_generated_from_what_is_new_as_from_the_whole_transcript(policy) -> None:
    fed: dict[bool, list[int]] = {True: [], False: []}

    class Counted(LlamaDecoder):
        def _forward(self, x, cos, sin, attend, wanted=None):
            fed[self.again] += [len(x)] * (wanted is not None)
            return super()._forward(x, cos, sin, attend, wanted)

    class Forgetting(Counted):
        again = property(lambda self: False, lambda self, value: None)

    groups = [played(policy, decoder=kind) for kind in (Counted, Forgetting)]
    one, other = ([tokens.ids for group in each for tokens in tokens_of(group)] for each in groups)
    assert one == other and len(fed[True]) == len(fed[False]) == 4
    assert all(new < 0.8 * whole for new, whole in zip(fed[True][2:], fed[False][2:], strict=True))


def test_an_episode_ends_where_it_is_done_cut_off_or_has_had_its_turns(policy) -> None:
    ends = set()
    for episode in (each for group in played(policy, size=12) for each in episodes_of(group)):
        replay = Guessing()._played(episode.turns)
        ends.add("done" if replay.done else "turns" if episode.ended else "cut")
        assert replay.done or not episode.ended or len(episode.turns) == Guessing.most
        assert all(said for said in replay.observations[:-1])
    assert ends == {"done", "turns", "cut"}


def test_a_context_without_room_ends_an_episode_and_no_round() -> None:
    class Talking(Guessing):
        def _played(self, turns):
            return super()._played([Turn(calls=(), text="no") for _ in turns])

    policy = tiny_policy("Llama", eos=MANY_EOS, max_position_embeddings=60)
    (group,) = played(policy, Talking(), [replace(QUESTIONS[0], prompt="x" * 20)])
    assert max(len(each.turns) for each in episodes_of(group)) == 2
    assert any(each.ended for each in episodes_of(group))


def test_a_call_ends_a_turn_and_stays_in_its_text(policy) -> None:
    stops, call = Stops(policy, (), calls=True), policy.tokenizer("a<call>b</call>").input_ids
    assert (stops.end(call), stops.end(call[:-1])) == (True, False)
    assert stops.completions([call])[0].text == "a<call>b</call>"


def test_plain_questions_beside_episodes_are_answered_as_without_them(policy) -> None:
    class Known(Catalogue):
        def turns(self, question):
            return 4 if question.index else 1

    class Both(Guessing):
        catalogue = Known()

    plain = played(policy, Digits(), QUESTIONS[:1])
    assert played(policy, Both())[:1] == plain
    assert {len(each.turns) for each in episodes_of(played(policy, Both())[1])} > {1}


def test_a_peers_episode_becomes_the_tokens_that_it_had_at_its_author(policy) -> None:
    for group in played(policy):
        said = tuple(
            Guessing()._played(episode.turns).observations for episode in episodes_of(group)
        )
        received = (
            text_group([0.0, 1.0] * 3, ["x"] * 6)
            .message()
            .model_copy(update={"episodes": tuple(episodes_of(group))})
        )
        known = scored(received, "guess:", (0.0, 1.0) * 3, observations=said)
        theirs = tokenise(known, [1.0, -1.0] * 3, policy)
        for row, tokens in zip(theirs.rows, tokens_of(group), strict=True):
            again = Tokens(row.ids, (), mask=row.mask)
            assert parts(policy, again) == parts(policy, tokens)
            assert sum(i in policy.eos_ids for i in tokens.ids) == again.ids.count(policy.eos_id)
        assert all(row.behaviour is None and row.external for row in theirs.rows)


def test_nodes_train_on_each_others_episodes_and_a_checkpoint_keeps_them() -> None:
    swarm, environment = MemorySwarm(Random(0)), Guessing()
    nodes = [
        make_node(k, join(swarm, k, environment), environment, defence=("length", "rescue"))
        for k in (0, 1)
    ]
    turns = set[int]()
    for now in range(4):
        made = [node.produce(Round(now)) for node in nodes]
        assert [read_waiting(write_waiting(each)) for each in made] == made
        chosen = [node.select(each) for node, each in zip(nodes, made, strict=True)]
        reports = [node.train(each) for node, each in zip(nodes, chosen, strict=True)]
        turns |= {
            len(e.turns)
            for each in chosen
            for g in each.external
            if g.from_others
            for e in g.episodes
        }
        written = [
            tokens.written_count
            for group in made[0].groups + made[0].answers
            for tokens in tokens_of(group)
        ]
        assert reports[0].generated_tokens == sum(written)
        assert reports[0].step.mismatch_max < 1e-4
    assert {1, 4} < turns
