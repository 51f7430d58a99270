"""The interfaces between rooms. A room knows its neighbours only by these."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from protocol.messages import PeerId, Question, RolloutGroup, Round
from swarm_node.rollouts.groups import (
    Catalogue,
    Group,
    Plays,
    RoundReport,
    Skipped,
    StepReport,
    ToPlay,
    Turns,
)


class Environment(Protocol):
    """Where questions come from, and what plays them. The only room that may run a verifier.

    Every question is an episode: a completion that answers at one go is an episode of one turn.
    """

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        """Addresses of the `count` questions of this author's round. A pure function of its
        arguments.
        """
        ...

    @property
    def catalogue(self) -> Catalogue:
        """The tasks whose questions this node can rebuild."""
        ...

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        """The prompt of each question."""
        ...

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        """Play episodes of these questions from their beginning: live ones, whose last turn is new,
        and those that a peer sent. An episode is `Skipped` if turns follow its end; a question if
        its verifier hung, crashed, took too long or returned nonsense.
        """
        ...

    def close(self) -> None:
        """Release what it holds outside this process."""
        ...


class Generator(Protocol):
    """Compute, first half: prompts in, completions out."""

    @property
    def decoder_name(self) -> str:
        """What decodes here, for people."""
        ...

    def open(self, *, goes_on: bool) -> Turns:
        """Begin some episodes: a function that writes their turns, the first and then the next.

        Args:
            goes_on: whether turns may follow the first. Then a call ends a turn, too, and the
                contexts of the turn before may be remembered, so the weights must not change until
                the last turn.
        """
        ...

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        """Ids of what an environment says to a turn, up to where the next turn starts. `last`: the
        id before them.
        """
        ...

    def close(self) -> None:
        """Release what it holds outside this process."""
        ...


class Trainer(Protocol):
    """Compute, second half: scored groups in, better weights out."""

    @property
    def rows(self) -> str:
        """How sequences stand in the rows of a batch, for people."""
        ...

    def update(self, groups: Sequence[Group]) -> StepReport:
        """One update. Uninformative groups cost nothing. Without an informative one no step is
        taken.
        """
        ...

    @property
    def stepping(self) -> bool:
        """Whether weights have changed in an update whose round is not counted yet: weights of no
        round, if it were given up now.
        """
        ...

    def settle(self) -> None:
        """The round of the last update is counted: from now on its weights are those to save."""
        ...

    @property
    def steps(self) -> int:
        """Optimiser steps in the life of the policy, earlier runs included."""
        ...

    def is_finite(self) -> bool:
        """Whether all trained weights are finite numbers."""
        ...

    def save(self, file: Path) -> None:
        """Write what an exact resume needs besides weights and counts. OSError on a full disk."""
        ...

    def restore(self, file: Path | None, steps: int, version: int) -> None:
        """Go on where a checkpoint was taken, after so many optimiser steps and at this version of
        the policy, whose weights were loaded before. `file`: what `save` wrote; None where it was
        not kept. Raises Damaged, and then has changed nothing.
        """
        ...


class Network(Protocol):
    """Best effort both ways: publishing may be lost, collecting may return nothing. Never raises,
    never waits.
    """

    def publish(self, groups: Sequence[RolloutGroup], now: Round) -> None:
        """Offer the groups of this round to others."""
        ...

    def collect(self, now: Round) -> list[Group]:
        """Groups that arrived since the last call, already admitted."""
        ...

    def verdict(self, external: Group, useful: bool, fault: str = "") -> None:
        """What this node found in a collected group. `useful`: whether it was informative and used.
        `fault`: why it could not be scored, e.g. "scoring timeout", which counts against its
        author.
        """
        ...

    def rejections(self) -> Mapping[str, int]:
        """How many messages were refused so far, by reason."""
        ...


class Participant(Protocol):
    """A node as seen by a loop over many nodes. What `produce` returns and `consume` takes is the
    node's own.
    """

    def produce(self, now: Round) -> Any:
        """Generate this round, and publish it."""
        ...

    def consume(self, produced: Any) -> RoundReport:
        """Select groups, and train on them."""
        ...


class Runner(Protocol):
    """A node that runs by itself, in one process or in several."""

    def run_round(self, now: Round) -> RoundReport:
        """The next round, from generation to the update."""
        ...

    def waiting(self) -> list[str]:
        """Rounds that are generated and published but not trained on, as text for a checkpoint. The
        oldest first.
        """
        ...
