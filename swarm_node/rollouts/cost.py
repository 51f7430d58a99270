"""Which external groups this machine can afford to train on, by their tokens.

Cards and CPUs share one swarm. A card writes completions of 600 tokens as easily as a CPU writes
20, and a CPU that trained on them would take minutes for a round. So a round has an allowance for
external completions. It follows from what a round of this node itself costs: as many tokens as if
peers wrote as much as this node does, and a tenth of what its own completions have. Training takes
time in proportion to its tokens, and generation stays as it was. So a round takes at most a tenth
longer than among peers that are like this node.

A group that takes more than the whole allowance is too long for this machine: it is skipped as it
arrives, before it costs any scoring, and counted. Nobody is charged, as its author cannot know this
machine. A group that takes more than the round has left waits for the next round. Prompts are not
counted: they are of tasks that this node practises itself.

Where a layer of the defence adds only some completions of an external group to local ones, only so
many count, the longest. A text has hardly more tokens than bytes, so most groups are taken without
being tokenised. Here lengths are numbers. Pure: no torch, no clock.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from swarm_node.rollouts.groups import Group

TOO_LONG = "too long for this machine"  # why a group is skipped, a key for counting
LONGER = 0.1  # the share of its own tokens by which a round may grow

# Tokens of each completion of a group, as this node's tokenizer encodes it
Lengths = Callable[[Group], Sequence[int]]


def trained_tokens(lengths: Sequence[int], added: int | None) -> int:
    """The tokens of a group that a round trains on at most: of its `added` longest completions, or
    of all of them.
    """
    longest = sorted(lengths, reverse=True)
    return sum(longest if added is None else longest[:added])


def allowance(own: Sequence[Sequence[int]], groups: int, added: int | None) -> float:
    """Tokens that the external groups of a round may take.

    Args:
        own: the lengths of the completions of each group that this node generated.
        groups: how many external groups a round trains on.
        added: completions of an external group that are trained on; None: all of them.

    Returns:
        `groups` times what a group of this node would take, and a tenth of its own tokens. No limit
        where this node has no group of its own to compare with.
    """
    if not own:
        return float("inf")
    return groups * of_a_group(own, added) + LONGER * sum(map(sum, own))


def of_a_group(own: Sequence[Sequence[int]], added: int | None) -> float:
    """Tokens that an external group takes if its author writes as much as this node does, which
    generated completions of these lengths; 0 where it generated none.
    """
    taken = [trained_tokens(lengths, added) for lengths in own]
    return fmean(taken) if taken else 0.0


@dataclass(frozen=True, slots=True)
class Purse:
    """What a round may spend on external groups, in tokens."""

    allowed: float
    lengths: Lengths
    added: int | None = None  # completions of a group that are trained on; None: all of them
    of_further: float = 0.0  # what each group more than usual may take

    @classmethod
    def of_round(
        cls,
        own: Sequence[Group],
        groups: int,
        lengths: Lengths | None,
        added: int | None,
        given: int = 0,
    ) -> "Purse":
        """The purse of a round that generated the groups `own` and trains on `groups` external
        ones. `lengths`: None for a node that counts nothing and takes all. `given`: tokens that the
        user allows in place of those that follow from `own`; 0 for none.
        """
        if lengths is None:
            return cls(float("inf"), lambda group: (), added)
        counted = [lengths(group) for group in own]
        if given:
            return cls(given, lengths, added)
        allowed = allowance(counted, groups, added)
        return cls(allowed, lengths, added, of_a_group(counted, added))

    def with_room_for(self, groups: int) -> "Purse":
        """The purse of a round that takes so many external groups more than usual, in places that
        local ones leave. What the user allows stays as it is.
        """
        return replace(self, allowed=self.allowed + groups * self.of_further)

    def cost(self, group: Group) -> int:
        """The tokens that training on this group takes at most."""
        return trained_tokens(self.lengths(group), self.added)

    def fits(self, group: Group, limit: float) -> bool:
        """Whether the group takes at most so many tokens."""
        return trained_tokens(byte_lengths(group), self.added) <= limit or self.cost(group) <= limit

    def admitted(self, arrived: Sequence[Group]) -> tuple[list[Group], list[Group]]:
        """The groups that may wait to be selected, and those that are too long for this machine."""
        taken, too_long = list[Group](), list[Group]()
        for group in arrived:
            (taken if self.fits(group, self.allowed) else too_long).append(group)
        return taken, too_long

    def beside(self, chosen: Sequence[Group], offered: Sequence[Group]) -> list[Group]:
        """The offered groups of which each by itself fits beside the chosen ones."""
        left = self.allowed - sum(map(self.cost, chosen))
        return [group for group in offered if self.fits(group, left)]

    def affordable(self, groups: Sequence[Group]) -> list[Group]:
        """Returns those of the groups, in their order, that this round can afford together. A group
        that no longer fits is passed over.
        """
        kept, left = list[Group](), self.allowed
        for group in groups:
            cost = self.cost(group)
            if cost <= left:
                kept.append(group)
                left -= cost
        return kept


def byte_lengths(group: Group) -> list[int]:
    """The bytes of each completion, and one for the token that ends it."""
    return [len("".join(sample.free_texts).encode()) + 1 for sample in group.samples]
