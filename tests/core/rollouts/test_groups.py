"""What a group and its samples are, from a message to a reward."""

from random import Random

import pytest

from protocol.messages import PeerId
from swarm_node.rollouts.defence import Layer, LayeredDefence
from swarm_node.rollouts.groups import ExternalGroup, Group, Sample, ScoredGroup, Tokens
from tests.groups import external, group, scored
from tests.models import text_group

MESSAGE = group(PeerId("ann"), round=3, texts=("4", "five", "FIVE"))


def test_a_group_travels_as_text_alone_and_comes_back_without_its_rewards_and_tokens() -> None:
    tokens = [Tokens((7,), (-0.5,))] * 3
    local = scored(MESSAGE, "2 + 2?", (1.0, 0.0, 0.0), tokens, (5, 6))
    assert local.message() == MESSAGE
    received = Group.received(local.message(), b"id")
    assert received == Group(
        PeerId("ann"),
        local.round,
        MESSAGE.question,
        tuple(map(Sample, MESSAGE.episodes)),
        id=b"id",
    )
    assert received.from_others and not local.from_others


def test_a_group_has_rewards_once_it_is_scored_and_one_for_each_sample() -> None:
    received = external(MESSAGE)
    with pytest.raises(ValueError, match="not scored"):
        _ = received.rewards
    for rewards in ((1.0, 0.0), (1.0, 0.0, 0.0, 0.0)):
        with pytest.raises(ValueError, match="3 samples"):
            received.scored(rewards)
    assert received.scored((1.0, 0.0, 0.5)).rewards == (1.0, 0.0, 0.5)
    assert received.scored((1.0, 0.0, 0.5)).informative
    assert not received.scored((0.5, 0.5, 0.5)).informative


def test_a_plug_in_of_version_0_1_reads_a_group_as_it_did() -> None:
    assert ExternalGroup is Group and ScoredGroup is Group
    received = external(MESSAGE)
    assert received.group.round == 3 and received.group.author == received.author == "ann"
    of_a_peer = scored(MESSAGE, "2 + 2?", (1.0, 0.0, 0.0))
    assert of_a_peer.group.episodes == MESSAGE.episodes and of_a_peer.group.question
    assert of_a_peer.tokens is None and of_a_peer.observations == ()
    tokens = (Tokens((7,), (-0.5,)), None, None)
    said = ((("<higher>",), ()), ((),), ((),))
    mixed = scored(MESSAGE, "2 + 2?", (1.0, 0.0, 0.0), tokens, observations=said)
    assert mixed.tokens == tokens and mixed.observations == said


class ByPosition(Layer):
    """As layers of version 0.1 were written."""

    reason = "shouted"

    def keep(self, local, groups, rng):
        return [
            [i for i, each in enumerate(group.group.episodes) if not each.text.isupper()]
            for group in groups
        ]


class BySample(Layer):
    reason = "shouted"

    def keep(self, local, groups, rng):
        return [
            [sample for sample in group.samples if not sample.episode.text.isupper()]
            for group in groups
        ]


def test_a_layer_may_keep_samples_or_their_positions() -> None:
    groups = [
        text_group([1.0, 0.0, 1.0], ["12", "NO", "five"]),
        text_group([1.0, 0.0, 0.5], ["12", "no", "HALF"], author="bob"),
        text_group([1.0, 0.0], ["12", "NO"], author="eve"),
    ]
    by_position, by_sample = (
        LayeredDefence([layer]).screen([], groups, Random(0))
        for layer in (ByPosition(), BySample())
    )
    assert by_position == by_sample
    kept, refused = by_sample
    assert [[sample.episode.text for sample in group.samples] for group in kept] == [["12", "no"]]
    assert [(each.author, each.reason) for each in refused] == [
        ("ann", "shouted"),
        ("eve", "shouted"),
    ]
