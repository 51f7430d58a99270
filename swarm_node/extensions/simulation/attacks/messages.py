"""What a hostile node sends to everybody in a round: pairs of bytes and sender."""

import hashlib
from collections.abc import Callable, Iterator
from random import Random

from protocol import codec
from protocol.identity import Identity
from protocol.messages import Completion, PeerId, Question, RolloutGroup, Round
from swarm_node.extensions.simulation.attacks.payloads import Payload, forged, payload_of, poisoned
from swarm_node.rollouts.interfaces import Environment
from swarm_node.settings import AttackConfig, SimulationConfig

FLOOD = 10  # times as many groups as an honest node publishes
SYBILS = 8  # new identities of one hostile node, every round

Message = tuple[bytes, PeerId]
AnswerKey = Callable[[Question], str]


class Attack:
    """One hostile node's traffic. `answer` gives the reference answer of a question."""

    def __init__(
        self, config: SimulationConfig, identity: Identity, environment: Environment, answer: AnswerKey
    ) -> None:
        self._config, self._identity, self._environment, self._answer = config, identity, environment, answer
        self._attack: AttackConfig = config.attack
        self._payload = payload_of(config.attack.kind, config.attack.payload)

    def messages(self, now: Round) -> Iterator[Message]:
        """All messages of the attacker in this round."""
        rng = Random(f"{self._config.seed}/{self._identity.peer_id}/{now}/attack")
        questions = self._config.round.questions
        match self._attack.kind:
            case "lies":
                yield from self._lies(now, rng)
            case "flood":
                yield from self._groups(self._identity, now, min(FLOOD * questions, 256), rng)
            case "sybil":
                for k in range(SYBILS):
                    seed = hashlib.sha256(f"{self._config.seed}/{self._identity.peer_id}/{now}/{k}".encode()).digest()
                    yield from self._groups(Identity.from_seed_bytes(seed), now, questions, rng)
            case _:
                yield from self._groups(self._identity, now, questions, rng)

    def _groups(self, identity: Identity, now: Round, count: int, rng: Random) -> Iterator[Message]:
        """Valid messages of one identity: a group for each of its real questions."""
        for question in self._environment.sample(identity.peer_id, now, count):
            completions = self._completions(self._answer(question), rng)
            group = RolloutGroup(author=identity.peer_id, round=now, question=question, completions=completions)
            yield codec.seal(group, identity, self._config.swarm), identity.peer_id

    def _completions(self, answer: str, rng: Random) -> tuple[Completion, ...]:
        size = self._config.generation.num_generations
        if self._attack.kind == "forge":
            return forged(size, answer, rng)
        return poisoned(answer, size, Payload() if rng.random() < self._attack.clean else self._payload, rng)

    def _lies(self, now: Round, rng: Random) -> Iterator[Message]:
        """Garbage, and valid messages changed in every way that admission checks."""
        honest = [data for data, _ in self._groups(self._identity, now, self._config.round.questions, rng)]
        group = codec.decode(codec.split(honest[0])[1], RolloutGroup)
        assert isinstance(group, RolloutGroup)
        question = group.question
        lies = [
            group.model_copy(update={"question": question.model_copy(update={"seed": question.seed ^ 1})}),
            group.model_copy(update={"question": question.model_copy(update={"dataset": "nobody_knows"})}),
            group.model_copy(update={"round": now + 1}),
            group.model_copy(update={"author": PeerId("12D3KooWnobody")}),
        ]
        flipped = bytearray(honest[0])
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
        sent = [
            *(b"", rng.randbytes(1000), b"[" * 60_000, b"{" * 1_000_000, bytes(flipped), honest[0][:-1]),
            *(codec.seal(lie, self._identity, self._config.swarm) for lie in lies),
            codec.seal(group, self._identity, "another-swarm"),
            *honest[1:2] * 5,  # a replay: the first is good
        ]
        for data in sent:
            yield data, self._identity.peer_id
