"""Forged trajectories against replay: nothing is trained on with a reward or an observation that this node's own
environment did not give.

    python -m lab.fuzzing.forged_episodes --json        # docs/results/security.md

A group of each kind goes the way of a pulled one: sealed, admitted, into the pool, replayed in sandboxed children,
charged. Whatever is kept is compared with an oracle: the environment's own object, played in this process. An eighth of
the groups are honest, from peers of their own.
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import Any

from lab.benchmarks import command
from protocol import codec, limits
from protocol.addressing import question_seed
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity
from protocol.messages import Call, Episode, PeerId, Question, RolloutGroup, Round, Turn
from protocol.rejection import Rejected
from swarm_node.environments.registry import build_environment
from swarm_node.extensions.episodes.source import begin
from swarm_node.network.exchange.peers import OTHER_POINTS, POINTS, Reputation, points
from swarm_node.node.round import score_external
from swarm_node.rollouts.groups import ExternalGroup, ScoredGroup, Skipped
from swarm_node.rollouts.pool import RolloutPool
from swarm_node.rollouts.replay import Divergence
from swarm_node.scoring import contract
from swarm_node.settings import EnvironmentConfig, LearningConfig

SWARM, TASKS = "forged", ("bisect/easy", "calculator/easy", "calculator/hard")
EPISODES, TOGETHER, HONEST_PEERS, HONEST = 4, 4, 8, 8  # of a group; groups of a call; peers; one group in so many
Told = tuple[tuple[tuple[str, ...], ...], bool, float, str]  # observations, done, score, trace
Forge = Callable[["Forger", RolloutGroup], RolloutGroup]


def oracle(question: Question, turns: tuple[Turn, ...]) -> Told | None:
    """What the environment says, without a child, a wire or a parser; None where turns follow the end."""
    episode = begin(question.dataset, question.config_id, question.seed, question.index)
    said, done = list[tuple[str, ...]](), False
    for turn in turns:
        if done:
            return None
        calls = tuple(contract.Call(call.name, call.arguments) for call in turn.calls)
        found, done = episode.step(contract.Turn(turn.text, calls))
        said.append(() if done else found)
    return tuple(said), done, round(episode.score(), 6), codec.trace(episode.prompt, said, done)


class Forger:
    """Makes groups, honest ones and then what becomes of them."""

    def __init__(self, seed: int, digests: dict[str, str], version: str) -> None:
        self.rng, self._digests, self._version = Random(seed), digests, version

    def honest(self, author: PeerId, now: int) -> RolloutGroup:
        """Of episodes of two turns or more, as an honest node has them."""
        dataset, config_id = (task := self.rng.choice(TASKS)).split("/")
        about = {"environment": "episodes", "version": self._version, "dataset": dataset, "config_id": config_id}
        seed, index = question_seed(SWARM, author, Round(now)), self.rng.randrange(limits.MAX_QUESTIONS_PER_ROUND)
        question = Question(**about, digest=self._digests[task], seed=seed, index=index)
        episodes = tuple(self._played(question) for _ in range(EPISODES))
        return RolloutGroup(author=author, round=now, question=question, episodes=episodes)

    def _played(self, question: Question) -> Episode:
        while True:
            turns = tuple(self.turn(question) for _ in range(self.rng.randint(2, 4)))
            for end in range(len(turns), 1, -1):
                if told := oracle(question, turns[:end]):
                    return Episode(ended=True, trace=told[3], turns=turns[:end])

    def turn(self, question: Question) -> Turn:
        """As a policy writes it."""
        if question.dataset == "calculator" and self.rng.random() < 0.8:
            return Turn(text="", calls=(self.call(),) * self.rng.randint(1, 2))
        return Turn(text=str(self.rng.randint(1, 230)), calls=())

    def call(self, name: str = "calculate") -> Call:
        return Call(name=name, arguments=f'{{"expression":"{self.rng.randint(1, 999)} * {self.rng.randint(1, 99)}"}}')


def _each(change: Callable[[Forger, Question, tuple[Turn, ...]], tuple[Turn, ...]]) -> Forge:
    """Other turns under the old traces."""

    def forge(forger: Forger, group: RolloutGroup) -> RolloutGroup:
        episodes = [
            each.model_copy(update={"turns": change(forger, group.question, each.turns)}) for each in group.episodes
        ]
        return group.model_copy(update={"episodes": tuple(episodes)})

    return forge


def _asked(**update: Callable[[Forger, Question], object]) -> Forge:
    """The episodes of one question under another."""

    def forge(forger: Forger, group: RolloutGroup) -> RolloutGroup:
        changed = {name: value(forger, group.question) for name, value in update.items()}
        return group.model_copy(update={"question": group.question.model_copy(update=changed)})

    return forge


def _swapped(forger: Forger, question: Question, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    one, other = forger.rng.sample(range(len(turns)), 2)
    order = {one: other, other: one}
    return tuple(turns[order.get(place, place)] for place in range(len(turns)))


def _inserted(forger: Forger, question: Question, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    place = forger.rng.randrange(len(turns))
    return (*turns[:place], forger.turn(question), *turns[place:])


def _altered(**update: Callable[[Forger, Turn], object]) -> Forge:
    """One turn says something else."""

    def change(forger: Forger, question: Question, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
        place = forger.rng.randrange(len(turns))
        changed = {name: value(forger, turns[place]) for name, value in update.items()}
        return (*turns[:place], turns[place].model_copy(update=changed), *turns[place + 1 :])

    return _each(change)


def _exchanged(forger: Forger, group: RolloutGroup) -> RolloutGroup:
    traces = [each.trace for each in group.episodes]
    pairs = zip(group.episodes, traces[1:] + traces[:1], strict=True)
    return group.model_copy(update={"episodes": tuple(e.model_copy(update={"trace": trace}) for e, trace in pairs)})


def _too_much(forger: Forger, group: RolloutGroup) -> RolloutGroup:
    """Over one of the limits of an episode, a turn, a call or the environment."""
    call, long = forger.call(), "1" * (limits.MAX_ARGUMENT_CHARS + 1)
    turns = [(Turn(text="1", calls=()),) * count for count in (7, limits.MAX_TURNS + 1)]
    turns += [(Turn.model_construct(text="", calls=(call,) * (limits.MAX_CALLS + 1)),) * 2]
    turns += [(Turn.model_construct(text="", calls=(Call.model_construct(name="calculate", arguments=long),)),) * 2]
    turns += [(Turn(text="1" * (limits.MAX_EPISODE_CHARS // 2 + 1), calls=()),) * 2]
    first = group.episodes[0].model_copy(update={"turns": forger.rng.choice(turns)})
    return group.model_copy(update={"episodes": (first, *group.episodes[1:])})


def _truly(forge: Forge) -> Forge:
    """With the traces that belong to it: nothing but the turns is wrong."""

    def run(forger: Forger, group: RolloutGroup) -> RolloutGroup:
        forged = forge(forger, group)
        told = [oracle(forged.question, each.turns) for each in forged.episodes]
        pairs = zip(forged.episodes, told, strict=True)
        episodes = (each.model_copy(update={"trace": found[3]}) if found else each for each, found in pairs)
        return forged.model_copy(update={"episodes": tuple(episodes)})

    return run


KINDS: dict[str, Forge] = {
    "turn dropped": _each(lambda forger, question, turns: turns[:-1] if len(turns) > 2 else turns[::-1]),
    "turns swapped": _each(_swapped),
    "turn inserted": _each(_inserted),
    "argument changed": _altered(
        calls=lambda forger, turn: (forger.call(),), text=lambda forger, turn: "9" + turn.text
    ),
    "other seed": _asked(seed=lambda forger, question: question.seed + 1),
    "other index": _asked(index=lambda forger, question: (question.index + 1) % limits.MAX_QUESTIONS_PER_ROUND),
    "other author": _asked(seed=lambda forger, question: question_seed(SWARM, PeerId("honest"), Round(0))),
    "other swarm": lambda forger, group: group,
    "other version": _asked(version=lambda forger, question: "0", digest=lambda forger, question: "A" * 11),
    "after the end": _each(lambda forger, question, turns: (*turns, *[forger.turn(question)] * 4)),
    "unknown tool": _altered(calls=lambda forger, turn: (forger.call("shell"),)),
    "unknown tool, true trace": _truly(_altered(calls=lambda forger, turn: (forger.call("shell"),))),
    "fake result": _altered(text=lambda forger, turn: f"{turn.text}<result>higher</result>"),
    "trace of another": _exchanged,
    "observation in text": _altered(text=lambda forger, turn: f"{turn.text}\nhigher\n{turn.text}"),
    "over a limit": _too_much,
    "bad JSON": _truly(
        _altered(calls=lambda forger, turn: (Call(name="calculate", arguments=forger.rng.choice("[{x")),))
    ),
    "duplicates": lambda forger, group: group.model_copy(update={"episodes": (group.episodes[0],) * EPISODES}),
}


@dataclass
class Node:
    """The receiving side: admission, pool, replay, charges."""

    environment: Any
    reputation: Reputation = field(default_factory=Reputation)
    pool: RolloutPool = field(default_factory=lambda: RolloutPool(PeerId("us")))
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        turns, knows = self.environment.turns, self.environment.catalogue.knows
        self._rules = AdmissionRules(SWARM, PeerId("us"), knows=knows, turns=turns)
        self._divergence = Divergence(lambda: self.now)
        self._seen = set[bytes]()

    def take(self, kind: str, data: bytes, author: PeerId) -> None:
        """What the network process does with what a holder served."""
        group = admit(data, self._rules)
        if isinstance(group, Rejected):
            self._count(kind, f"refused: {group.reason}")
            self.reputation.charge(author, POINTS.get(group.reason, OTHER_POINTS), self.now, group.reason)
            return
        self.pool.add([ExternalGroup(group, codec.content_hash(codec.split(data)[1]))], Round(0))

    def replay(self, kinds: dict[PeerId, str]) -> None:
        """All that waits; `kinds`: of each author."""
        waiting = self.pool.candidates()
        self.pool.remove(waiting)
        self.now += 1.0
        for external, result in zip(waiting, score_external(self.environment, waiting, self._divergence), strict=True):
            kind = kinds[external.author]
            if external.id in self._seen:
                self.wrong.append(f"{kind}: trained on twice")
            self._seen.add(external.id)
            outcome = result.reason if isinstance(result, Skipped) else "useful"
            self.reputation.charge(external.author, points(outcome), self.now, outcome)
            kept = len(result.group.episodes) if isinstance(result, ScoredGroup) else 0
            self._count(kind, "kept", kept)
            self._count(kind, result.reason if isinstance(result, Skipped) else "dropped", EPISODES - kept)
            if isinstance(result, ScoredGroup):
                self._compare(kind, result)

    def _compare(self, kind: str, scored: ScoredGroup) -> None:
        parts = zip(scored.group.episodes, scored.rewards, scored.observations, strict=True)
        for episode, reward, observations in parts:
            told = oracle(scored.question, episode.turns)
            if told is None or (told[0], told[2]) != (observations, reward) or told[3] != (episode.trace or told[3]):
                self.wrong.append(f"{kind}: {episode.model_dump_json()[:200]}")

    def _count(self, kind: str, outcome: str, number: int = 1) -> None:
        self.outcomes.setdefault(kind, Counter())[outcome] += number


def run(trajectories: int, seed: int = 0) -> dict[str, Any]:
    """So many forged ones, and an eighth as many honest."""
    settings = EnvironmentConfig(tasks=TASKS, scoring="graded", time_limit=5.0)
    peers = [Identity.from_seed_bytes(Random(f"honest {k}").randbytes(32)) for k in range(HONEST_PEERS)]
    raised = list[str]()
    with closing(build_environment(LearningConfig(environment=settings, swarm=SWARM))) as environment:
        asked = environment.sample(peers[0].peer_id, Round(0), len(TASKS))
        digests = {f"{each.dataset}/{each.config_id}": each.digest for each in asked}
        forger, node = Forger(seed, digests, asked[0].version), Node(environment)
        began, made, kinds, honest = time.process_time(), 0, dict[PeerId, str](), 0
        while made < trajectories:
            for _ in range(TOGETHER):
                kind = list(KINDS)[made // EPISODES % len(KINDS)]
                forging = Identity.from_seed_bytes(forger.rng.randbytes(32))
                kinds[forging.peer_id] = kind
                made += EPISODES
                try:
                    forged = KINDS[kind](forger, forger.honest(forging.peer_id, made))
                    data = codec.seal(forged, forging, "elsewhere" if kind == "other swarm" else SWARM)
                    for _ in range(2 if kind == "duplicates" else 1):
                        node.take(kind, data, forging.peer_id)
                except Exception as error:  # noqa: BLE001
                    raised.append(f"{kind}: {error!r}")
            if made // EPISODES % HONEST == 0:
                peer, honest = peers[honest % HONEST_PEERS], honest + 1
                kinds[peer.peer_id] = "honest"
                group = forger.honest(peer.peer_id, made)
                node.take("honest", codec.seal(group, peer, SWARM), peer.peer_id)
            try:
                node.replay(kinds)
            except Exception as error:  # noqa: BLE001
                raised.append(f"replay: {error!r}")
    quarantined = [peer.peer_id for peer in peers if not node.reputation.is_trusted(peer.peer_id, node.now)]
    return {
        "trajectories": made,
        "honest": honest * EPISODES,
        "wrong": node.wrong,
        "failures": raised,
        "quarantined": len(quarantined),
        "honest_dropped": EPISODES * honest - node.outcomes["honest"]["kept"],
        "outcomes": {kind: dict(found) for kind, found in node.outcomes.items()},
        "cpu_seconds": time.process_time() - began,
    }


def main() -> None:
    parser = command.parser("lab.fuzzing.forged_episodes", __doc__)
    parser.add_argument("--trajectories", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    result = run(options.trajectories, options.seed)
    rows = [[kind, ", ".join(f"{name} {n}" for name, n in found.items())] for kind, found in result["outcomes"].items()]
    command.show(["kind", "became"], rows)
    said = "{trajectories} forged, {honest} honest; {quarantined} honest peers quarantined, {honest_dropped} dropped"
    print(said.format(**result), len(result["wrong"]), "wrong,", len(result["failures"]), "raised")
    command.finish(options, result)


if __name__ == "__main__":
    main()
