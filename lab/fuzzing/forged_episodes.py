"""Forged trajectories against replay: nothing is trained on with a reward or an observation that
this node's own environment did not give.

    python -m lab.fuzzing.forged_episodes --json        # docs/results/security.md

A group of each kind goes the way of a pulled one: it is sealed, admitted, put into the inbox,
replayed in sandboxed children, and its author is charged. What is kept is compared with an oracle:
the environment's own object, played in this process. Beside every eighth forged group goes an
honest one, of a peer that makes no others.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from random import Random
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.replayed import turns_of
from protocol import codec, limits
from protocol.addressing import question_seed
from protocol.admission import AdmissionRules, admit
from protocol.identity import Identity
from protocol.messages import Call, Episode, PeerId, Question, Rejected, RolloutGroup, Round, Turn
from protocol.versions import CURRENT
from swarm_node.environments.episodes.source import begin
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import Mixture
from swarm_node.network.exchange.peers import OTHER_POINTS, POINTS, Reputation, points
from swarm_node.node.episodes import Divergence
from swarm_node.node.round import score_external
from swarm_node.rollouts.groups import Group, Skipped
from swarm_node.rollouts.inbox import Inbox
from swarm_node.settings import EnvironmentConfig, LearningConfig

SWARM, TASKS = "forged", ("bisect/easy", "calculator/hard")
# Episodes of a group; forged groups for each honest one; honest peers
EPISODES, HONEST, PEERS = 16, 8, 8
US = PeerId("us")
Turns = tuple[Turn, ...]
Forge = Callable[[Random, RolloutGroup], RolloutGroup]


def oracle(
    question: Question, turns: Turns
) -> tuple[tuple[tuple[str, ...], ...], float, str] | None:
    """Observations, score and trace of an episode, without a child or a parser; None if turns
    follow the end.
    """
    episode = begin(question.dataset, question.config_id, question.seed, question.index)
    said, done = list[tuple[str, ...]](), False
    for turn in turns:
        if done:
            return None
        found, done = episode.step(turn)
        said.append(() if done else found)
    longest = 2 * len(episode.answer) + 8  # of a turn that gives an answer, if it is to be paid
    brief = all(turn.calls or len(turn.text) <= longest for turn in turns)
    score = round(episode.score(), 6) if brief else 0.0
    return tuple(said), score, codec.trace(episode.prompt, said, done)


def honest(rng: Random, author: PeerId, now: int, asked: Question) -> RolloutGroup:
    """A group of episodes of three turns or more, as an honest node makes it."""
    seed, index = (
        question_seed(SWARM, author, Round(now)),
        rng.randrange(limits.MAX_QUESTIONS_PER_ROUND),
    )
    question, episodes = asked.model_copy(update={"seed": seed, "index": index}), list[Episode]()
    while len(episodes) < EPISODES:
        turns = turns_of(question.dataset, rng)
        told = oracle(question, turns)
        if told and len(turns) > 2:
            episodes.append(Episode(ended=True, trace=told[2], turns=turns))
    return Group.of_text(author, Round(now), question, episodes).message()


def _each(change: Callable[[Random, Turns], Turns]) -> Forge:
    """A forger that puts other turns under the old traces."""

    def forge(rng: Random, group: RolloutGroup) -> RolloutGroup:
        episodes = (
            each.model_copy(update={"turns": change(rng, each.turns)}) for each in group.episodes
        )
        return group.model_copy(update={"episodes": tuple(episodes)})

    return forge


def _at(change: Callable[[Random, Turn], Sequence[Turn]]) -> Forge:
    """A forger that puts other turns in place of a random one of each episode."""

    def forge(rng: Random, turns: Turns) -> Turns:
        place = rng.randrange(len(turns))
        return (*turns[:place], *change(rng, turns[place]), *turns[place + 1 :])

    return _each(forge)


def _asked(**update: Callable[[Question], object]) -> Forge:
    """A forger that puts the same episodes under another question."""
    return lambda rng, group: group.model_copy(
        update={
            "question": group.question.model_copy(
                update={k: new(group.question) for k, new in update.items()}
            )
        }
    )


def _traced(forge: Forge, move: int | None = None) -> Forge:
    """The forger with true traces; with `move`, those of the episodes so many places on."""

    def run(rng: Random, group: RolloutGroup) -> RolloutGroup:
        forged = forge(rng, group)
        traces = [
            (oracle(forged.question, each.turns) or ("", 0, each.trace))[2]
            for each in forged.episodes
        ]
        traces = traces[move:] + traces[:move] if move else traces
        pairs = zip(forged.episodes, traces, strict=True)
        return forged.model_copy(
            update={"episodes": tuple(e.model_copy(update={"trace": t}) for e, t in pairs)}
        )

    return run


def _said(
    text: str = "", name: str = "calculate", arguments: str = '{"expression":"6*7"}', calls: int = 1
) -> Turn:
    call = Call(name, arguments)
    return Turn(text, (call,) * calls)


def _text(form: str) -> Forge:
    return _at(lambda rng, turn: [turn._replace(text=form.format(turn.text))])


LONG = "1" * (limits.MAX_ARGUMENT_CHARS + 1)
MANY = [
    (_said(),) * 7,
    (_said(),) * 33,
    (_said(calls=5),) * 2,
    (_said(arguments=LONG),) * 2,
    (_said(LONG),) * 9,
]
KINDS: dict[str, Forge] = {
    "turn dropped": _at(lambda rng, turn: []),
    "turns swapped": _each(lambda rng, turns: turns[::-1]),
    "turn inserted": _at(lambda rng, turn: [turn, _said("7", calls=0)]),
    "argument changed": _at(lambda rng, turn: [_said(f"9{turn.text}", calls=len(turn.calls))]),
    "other seed": _asked(seed=lambda question: question.seed + 1),
    "other index": _asked(
        index=lambda question: (question.index + 1) % limits.MAX_QUESTIONS_PER_ROUND
    ),
    "other author": _asked(seed=lambda question: question_seed(SWARM, US, Round(0))),
    "other swarm": _each(lambda rng, turns: turns),
    "other version": _asked(version=lambda question: "0"),
    "after the end": _at(lambda rng, turn: [turn, *[_said("1", calls=0)] * 2]),
    "unknown tool": _at(lambda rng, turn: [_said(name="shell")]),
    "unknown tool, true trace": _traced(_at(lambda rng, turn: [_said(name="shell")])),
    "fake result": _text("{}<result>higher</result>"),
    "trace of another": _traced(_each(lambda rng, turns: turns), move=1),
    "observation in text": _text("{0}\nhigher\n{0}"),
    "over a limit": lambda rng, group: _each(lambda _, turns: MANY[group.round % len(MANY)])(
        rng, group
    ),
    "bad JSON": _traced(
        _at(lambda rng, turn: [_said(arguments=rng.choice(["{", "[]", '{"x":1}', "NaN", "é"]))])
    ),
    "duplicates": _each(lambda rng, turns: turns),
    "honest": _each(lambda rng, turns: turns),
}


def run(trajectories: int, seed: int = 0) -> dict[str, Any]:
    """Sends a node so many forged trajectories, with honest groups between them, one group after
    another.
    """
    settings = EnvironmentConfig(tasks=TASKS, scoring="graded", time_limit=5.0)
    peers = [Identity.from_seed_bytes(Random(f"honest {k}").randbytes(32)) for k in range(PEERS)]
    rng, raised, made = Random(seed), list[str](), -(-trajectories // EPISODES)
    with closing(
        build_environment(LearningConfig(environment=settings, swarm=SWARM))
    ) as environment:
        asked, node = environment.sample(peers[0].peer_id, Round(0), len(TASKS)), Node(environment)
        for now in range(made):
            kind, forger = (
                list(KINDS)[now % (len(KINDS) - 1)],
                Identity.from_seed_bytes(rng.randbytes(32)),
            )
            peer = peers[now // HONEST % PEERS]
            parcels = [(kind, forger)] * (2 if kind == "duplicates" else 1) + [("honest", peer)] * (
                now % HONEST == 0
            )
            for what, author in parcels:
                group = honest(
                    Random(f"{seed}/{now}"), author.peer_id, now, asked[now % len(asked)]
                )
                # Encodes even what is too large to be sent
                payload = codec._canonical(KINDS[what](Random(now), group))
                swarm = "elsewhere" if what == "other swarm" else SWARM
                data = author.sign(CURRENT.domain("rollout-group", swarm), payload) + payload
                try:
                    node.take(what, data, author.peer_id)
                except Exception as error:  # noqa: BLE001
                    raised.append(f"{what}: {error!r}")
    return {
        "trajectories": EPISODES * made,
        "quarantined": sum(
            not node.reputation.is_trusted(peer.peer_id, node.now) for peer in peers
        ),
        "wrong": node.wrong,
        "failures": raised,
        "outcomes": {k: dict(v) for k, v in node.outcomes.items()},
    }


class Node:
    """The receiving side, from the bytes that a holder served to what would be trained on."""

    def __init__(self, environment: Mixture) -> None:
        self.reputation, self.wrong, self.now = Reputation(), list[str](), 0.0
        self.outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self._rules = AdmissionRules(
            SWARM, US, knows=environment.catalogue.knows, turns=environment.catalogue.turns
        )
        self._inbox, self._score = Inbox(US), partial(score_external, environment)
        self._divergence, self._trained = Divergence(lambda: self.now), set[bytes]()

    def take(self, kind: str, data: bytes, author: PeerId) -> None:
        """Takes the bytes of one group of this author, and counts its outcome under its kind."""
        self.now += 1.0
        group, outcome, kept = admit(data, self._rules), "", 0
        if isinstance(group, Rejected):
            outcome, charge = f"refused: {group.reason}", POINTS.get(group.reason, OTHER_POINTS)
            self.outcomes[kind][outcome] += EPISODES
            self.reputation.charge(author, charge, self.now, outcome)
            return
        self._inbox.arrive(
            [Group.received(group, codec.content_hash(data[limits.SIGNATURE_BYTES :]))], Round(0)
        )
        waiting = self._inbox.waiting()
        self._finish(waiting)
        for external, result in zip(waiting, self._score(waiting, self._divergence), strict=True):
            outcome = result.reason if isinstance(result, Skipped) else "useful"
            self.reputation.charge(author, points(outcome), self.now, outcome)
            if isinstance(result, Group):
                kept = len(result.samples)
                self.wrong += [kind] * (external.id in self._trained or not _right(result))
                self._trained.add(external.id)
            self.outcomes[kind] += Counter({"kept": kept, "dropped": EPISODES - kept})

    def _finish(self, waiting: Sequence[Group]) -> None:
        """These are not taken in again. The inbox does not learn how they scored, else it would
        shun an author whose group hung the scorer, and the next kind has the same author.
        """
        draw = self._inbox.draw()
        self._inbox.look(draw, waiting, lambda groups: [Skipped("scored beside")] * len(groups))
        self._inbox.settle(draw, Round(0))


def _right(scored: Group) -> bool:
    """Whether the oracle gives the same observations and rewards, and no trace differs from the
    oracle's.
    """
    for sample in scored.samples:
        told = oracle(scored.question, sample.episode.turns)
        if not told or told[:2] != (sample.observations, sample.reward):
            return False
        if sample.episode.trace not in ("", told[2]):
            return False
    return True


def main() -> None:
    parser = command.parser("lab.fuzzing.forged_episodes", __doc__)
    parser.add_argument("--trajectories", type=int, default=100_000)
    options = parser.parse_args()
    found = run(options.trajectories)
    command.show(
        ["kind", "became"], [[kind, str(outcomes)] for kind, outcomes in found["outcomes"].items()]
    )
    print(
        *(
            f"{name}: {found[name]}"
            for name in ("trajectories", "quarantined", "wrong", "failures")
        ),
        sep="; ",
    )
    command.finish(options, found)


if __name__ == "__main__":
    main()
