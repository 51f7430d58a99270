"""Which nodes are hostile, what a hostile node sends in a round, and how a victim counts the
effect.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any

from protocol import codec
from protocol.identity import Identity
from protocol.messages import Call, Episode, PeerId, Question, RolloutGroup, Round, Turn
from swarm_node.common.batched import paired
from swarm_node.common.errors import UserError
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.round import Node
from swarm_node.rollouts.groups import Generated, Group, Played, RoundReport, Selection, Skipped
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.attacks.payloads import (
    Payload,
    forged,
    payload_of,
    poisoned,
    wrong,
)

FLOOD = 10  # times as many groups as an honest node publishes
SYBILS = 8  # new identities of one hostile node, every round

Message = tuple[bytes, PeerId]  # and its sender


def hostile_nodes(config: SimulationConfig) -> frozenset[int]:
    """The last nodes, as many as the share gives. UserError if no honest node is left."""
    if config.attack.kind == "none":
        return frozenset()
    count = round(config.attack.share * config.nodes)
    if count == config.nodes:
        raise UserError(
            "an attack needs somebody to attack: not all nodes can be hostile; name fewer, or a "
            "smaller --attack.share"
        )
    return frozenset(range(config.nodes - count, config.nodes))


class Hostile:
    """A node that only sends. It needs no model: `answer` gives the reference answer of a
    question.
    """

    def __init__(
        self,
        config: SimulationConfig,
        identity: Identity,
        environment: Environment,
        answer: Callable[[Question], str],
        swarm: MemorySwarm,
    ) -> None:
        self._config, self._identity = config, identity
        self._environment, self._answer = environment, answer
        self._payload = payload_of(config.attack.kind, config.attack.payload)
        self._swarm = swarm

    def produce(self, now: Round) -> None:
        for data, sender in self.messages(now):
            self._swarm.transmit(data, sender, now)

    def consume(self, produced: None) -> RoundReport:
        raise AssertionError("a hostile node trains nothing")

    def messages(self, now: Round) -> Iterator[Message]:
        """All messages of the attacker in this round."""
        rng = Random(f"{self._config.seed}/{self._identity.peer_id}/{now}/attack")
        questions = self._config.round.questions
        match self._config.attack.kind:
            case "lies":
                yield from self._lies(now, rng)
            case "flood":
                yield from self._groups(self._identity, now, min(FLOOD * questions, 256), rng)
            case "sybil":
                for number in range(SYBILS):
                    name = f"{self._config.seed}/{self._identity.peer_id}/{now}/{number}"
                    seed = hashlib.sha256(name.encode()).digest()
                    yield from self._groups(Identity.from_seed_bytes(seed), now, questions, rng)
            case _:
                yield from self._groups(self._identity, now, questions, rng)

    def _groups(self, identity: Identity, now: Round, count: int, rng: Random) -> Iterator[Message]:
        """Valid messages of one identity: a group for each of its real questions."""
        for question in self._environment.sample(identity.peer_id, now, count):
            episodes = self._episodes(question, rng)
            group = Group.of_text(identity.peer_id, now, question, episodes)
            yield codec.seal(group.message(), identity, self._config.swarm), identity.peer_id

    def _episodes(self, question: Question, rng: Random) -> tuple[Episode, ...]:
        """The payload stands in an unscored turn before the answer where there can be one; else
        around the answer.
        """
        answer, size = self._answer(question), self._config.generation.num_generations
        if self._config.attack.kind == "forge":
            return forged(size, answer, rng)
        payload = Payload() if rng.random() < self._config.attack.clean else self._payload
        # That turn is a wrong try or, where a text ends an episode, a text beside a call.
        if self._environment.catalogue.turns(question) > 1:
            for calls in ((), (Call("calculate", "{}"),)):
                episodes = self._of_two_turns(question, answer, payload, calls, rng)
                if episodes:
                    return episodes
        return poisoned(answer, size, payload, rng)

    def _of_two_turns(
        self,
        question: Question,
        answer: str,
        payload: Payload,
        calls: tuple[Call, ...],
        rng: Random,
    ) -> tuple[Episode, ...]:
        """Right episodes with the payload and wrong ones without, in turn, each with a wrong try
        before its answer; the try makes these calls. Empty where the environment does not play one
        of them to its end.
        """
        right, without = (payload, answer), (Payload(), wrong(answer, rng))
        episodes: list[tuple[Turn, Turn]] = []
        for form, last in [right, without] * (self._config.generation.num_generations // 2):
            first_try = Turn(calls=calls, text=form.right(wrong(answer, rng)))
            episodes.append((first_try, Turn(calls=(), text=last)))
        (plays,) = self._environment.play([(question, episodes)])
        if isinstance(plays, Skipped):
            return ()
        traces = [play.trace for play in plays if isinstance(play, Played)]
        if len(traces) < len(episodes):
            return ()
        return tuple(
            Episode(ended=True, trace=trace, turns=turns)
            for trace, turns in paired(traces, episodes)
        )

    def _lies(self, now: Round, rng: Random) -> Iterator[Message]:
        """Garbage, replays, and valid messages that are changed in ways which admission refuses."""
        count = self._config.round.questions
        honest = [data for data, _ in self._groups(self._identity, now, count, rng)]
        group = codec.decode(codec.split(honest[0])[1], RolloutGroup)
        assert isinstance(group, RolloutGroup)
        question = group.question
        other_seed = question.model_copy(update={"seed": question.seed ^ 1})
        unknown = question.model_copy(update={"dataset": "nobody_knows"})
        false_fields: list[dict[str, Any]] = [
            {"question": other_seed},
            {"question": unknown},
            {"round": now + 1},
            {"author": PeerId("12D3KooWnobody")},
        ]
        lies = [group.model_copy(update=fields) for fields in false_fields]
        flipped = bytearray(honest[0])
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        sent = [b"", rng.randbytes(1000), b"[" * 60_000, b"{" * 1_000_000]
        sent += [bytes(flipped), honest[0][:-1]]
        sent += [codec.seal(lie, self._identity, self._config.swarm) for lie in lies]
        sent.append(codec.seal(group, self._identity, "another-swarm"))
        sent += honest[1:2] * 5  # replays: the first of them is valid
        for data in sent:
            yield data, self._identity.peer_id


@dataclass(frozen=True, slots=True)
class VictimReport(RoundReport):
    """A victim's round with counts of the effect of the attack, see `Victim`."""

    attack: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victim:
    """An honest node under observation. Counts local completions, "generated" and "marked", and
    external groups: "honest selected", "honest refused", "hostile selected" and "hostile refused".
    """

    node: Node
    payload: Payload
    is_honest: Callable[[PeerId], bool]

    def produce(self, now: Round) -> Generated:
        return self.node.produce(now)

    def consume(self, produced: Generated) -> VictimReport:
        selection = self.node.select(produced)
        report = self.node.train(selection)
        names = [entry.name for entry in fields(RoundReport)]
        values: dict[str, Any] = {name: getattr(report, name) for name in names}
        return VictimReport(**values, attack=self._counts(selection))

    def _counts(self, selection: Selection) -> dict[str, int]:
        written = [
            episode.turns for group in selection.generated.groups for episode in group.episodes
        ]
        marked = 0
        for turns in written:
            marked += any(self.payload.marks(turn.text) for turn in turns)
        counts = Counter({"generated": len(written), "marked": marked})
        refused = [entry.author for entry in selection.refused]
        for author in [*refused, *(group.author for group in selection.external)]:
            counts["honest selected" if self.is_honest(author) else "hostile selected"] += 1
        for author in refused:
            counts["honest refused" if self.is_honest(author) else "hostile refused"] += 1
        return dict(counts)
