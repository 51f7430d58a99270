"""Rounds of a node to which 16 authors never seen before send episodes that hang, and of the same node without them.

    python -m lab.benchmarks.hanging --json

A starter asks `bisect/tiny`, and 8 honest authors send groups in every round. Stretches with and without the 16 take
turns. Beside rounds a second: CPU seconds of a round, those of scoring processes and their children included.
"""

import time
from contextlib import closing
from statistics import fmean

from lab.benchmarks import command, replayed
from lab.benchmarks.common import settle
from lab.benchmarks.swarm import cpu_seconds
from protocol import codec
from protocol.identity import Identity
from protocol.messages import Episode, PeerId, RolloutGroup, Round, Turn
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import Mixture
from swarm_node.extensions.episodes.source import begin
from swarm_node.network.in_memory import Alone
from swarm_node.node.learner import build_node, scoring_ahead
from swarm_node.rollouts.groups import ExternalGroup
from swarm_node.settings import EnvironmentConfig, LearningConfig

HONEST, HOSTILE = 8, 16  # authors


class Crowd(Alone):
    """All that others do."""

    def __init__(self, environment: Mixture) -> None:
        self._environment, self.attack, self.hung = environment, False, 0

    def collect(self, now: Round) -> list[ExternalGroup]:
        honest = [self._group(f"honest {k}", now, hangs=False) for k in range(HONEST)]
        return honest + [self._group(f"minted {now} {k}", now, hangs=True) for k in range(HOSTILE * self.attack)]

    def verdict(self, external: ExternalGroup, useful: bool, fault: str = "") -> None:
        self.hung += fault != ""

    def _group(self, author: str, now: Round, *, hangs: bool) -> ExternalGroup:
        (question,) = self._environment.sample(PeerId(author), now, 1)
        answer = begin(question.dataset, question.config_id, question.seed, question.index).answer
        texts = [replayed.HANG, "0"] * 4 if hangs else [answer, "0"] * 4
        turns = [(Turn(calls=(), text=text),) * (1 + hangs) for text in texts]
        episodes = tuple(Episode(ended=True, trace="A" * 11 * hangs, turns=each) for each in turns)
        group = RolloutGroup(author=PeerId(author), round=now, question=question, episodes=episodes)
        return ExternalGroup(group, codec.content_hash(codec.encode(group)))


def main() -> None:
    parser = command.parser("lab.benchmarks.hanging", __doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a stretch")
    parser.add_argument("--turns", type=int, default=8, help="stretches of each kind")
    options = parser.parse_args()
    settle()
    config = LearningConfig(environment=EnvironmentConfig(use=(replayed.HANGING,)))
    who, now = Identity.from_seed_bytes(b"h" * 32).peer_id, Round(0)
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}  # rounds a second, CPU seconds of a round
    with closing(build_environment(config)) as environment, scoring_ahead(config, who, lambda *_: None) as scoring:
        crowd = Crowd(environment)
        node = build_node(config, who, environment, crowd, external=scoring)
        for turn in range(2 * options.turns + 2):  # two warm up
            crowd.attack = turn % 2 == 1
            began, cpu, first = time.monotonic(), cpu_seconds(), now
            while now == first or time.monotonic() - began < options.seconds:
                node.run_round(now)
                now = Round(now + 1)
            if turn > 1:
                rate = (now - first) / (time.monotonic() - began)
                found[crowd.attack].append((rate, (cpu_seconds() - cpu) / (now - first)))
    pairs = [(b[0] / a[0], b[1] / a[1]) for a, b in zip(found[False], found[True], strict=True)]
    left, cpu = (
        fmean(b) / fmean(a) for a, b in zip(*(zip(*found[kind], strict=True) for kind in (False, True)), strict=True)
    )
    print(f"{crowd.hung} groups hung; with them {left:.2f} of the rounds a second, {cpu:.2f} times the CPU of a round")
    command.finish(options, {"left": left, "cpu": cpu, "pairs": pairs, "quiet": found[False], "hung": crowd.hung})


if __name__ == "__main__":
    main()
