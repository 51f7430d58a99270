"""The peer that attacks a swarm in several ways."""

import argparse
from collections import Counter

from lab.fuzzing.hostile_peer import GROUPS, HostilePeer
from protocol import codec
from protocol.messages import Question, RolloutGroup


def said(peer: HostilePeer, number: int) -> list[RolloutGroup]:
    """The groups that it makes in a round."""
    peer._local.clear()
    peer._take_more(number)
    groups = [codec.peek(peer._envelopes[key], RolloutGroup) for key in peer._local]
    return [group for group in groups if isinstance(group, RolloutGroup)]


def questions(groups: list[RolloutGroup]) -> set[Question]:
    return {group.question for group in groups}


def test_a_replayer_answers_the_same_questions_in_each_round_with_other_text() -> None:
    about = {"kinds": ["replayer"], "seed": "replayer", "swarm": "s", "noise": False}
    peer = HostilePeer(argparse.Namespace(**about), Counter())
    first, again = said(peer, 1), said(peer, 2)
    assert len(first) == len(questions(first)) == GROUPS
    assert questions(again) == questions(first)
    assert all(one.episodes != other.episodes for one, other in zip(first, again, strict=True))
