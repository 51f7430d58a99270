"""Which completions of an external group are trained on, where not all of them are.

Training costs time in proportion to its tokens, and a group of eight with one right completion has
seven wrong ones, which say little more than one of them. So with `round.external_pairs` a round
keeps of an external group the completions above its mean, and as many of the others, both up to
that number. Advantages are computed among those that are kept: one right and one wrong completion
have advantages of equal size. (Choosing completions by how much their rewards differ: PODS, arXiv
2504.13818.)

With the layer `rescue` the group is one of this node's own completions with right ones of the peer
among them, and is treated alike. Pure: no torch, no clock.
"""

from dataclasses import replace
from random import Random
from statistics import fmean

from swarm_node.rollouts.groups import Group


def in_pairs(group: Group, most: int, rng: Random) -> Group:
    """The group with at most `most` completions above its mean, and as many others, drawn by chance
    and in their order. All of them where `most` is 0; then no random number is drawn, nor for a
    group that teaches nothing. In a group of the layer `rescue` the completions of the peer are
    kept before those of this node, since it is for them that the group is there.
    """
    if not most or not group.informative:
        return group
    mean = fmean(group.rewards)
    positions = range(len(group.samples))
    above = [position for position in positions if group.rewards[position] > mean]
    others = [position for position in positions if group.rewards[position] <= mean]
    count = min(most, len(above), len(others))
    shuffled = rng.sample(above, len(above))
    of_peer_first = sorted(shuffled, key=lambda position: not group.samples[position].external)
    kept = sorted(of_peer_first[:count] + rng.sample(others, count))
    return replace(group, samples=tuple(group.samples[position] for position in kept))


def fewer(added: int | None, completions: int) -> int | None:
    """The smaller of two numbers of completions of a group that are trained on. None and 0 stand
    for all of them.
    """
    if not completions:
        return added
    return completions if added is None else min(added, completions)
