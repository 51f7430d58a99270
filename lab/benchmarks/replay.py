"""What it costs to play episodes of peers again, how soon a hanging episode is given up, how large
a group is on the wire, and whether honest episodes go the same way in another process with another
hash seed.

    # each with what scoring needs
    python -m lab.benchmarks.replay --json [--pythons python3.12 python3.13]

CPU time is that of the scoring process and of the child that it forks for a group of 8 episodes,
building the question included. An episode's share is an eighth of it. No result is used again:
every group has a question of its own.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from random import Random
from statistics import fmean, quantiles
from unittest import mock

from lab.benchmarks import command
from lab.benchmarks.replayed import GROUP, HANG, HANGING, TIME_LIMIT, turns_of
from protocol import codec
from protocol.identity import Identity
from protocol.messages import Call, Episode, PeerId, Round, Turn
from swarm_node.environments.registry import build_environment
from swarm_node.environments.scored import Mixture
from swarm_node.rollouts.groups import Group, Played
from swarm_node.scoring import contract
from swarm_node.scoring.client import SET_VARIABLES, ScoringClient
from swarm_node.settings import EnvironmentConfig, LearningConfig

OURS = ("bisect/easy", "wordle/hard", "calculator/hard")
SOURCES = {
    **dict.fromkeys(OURS, "swarm_node.environments.episodes.source"),
    "second_try.gcd/easy": "swarm_node.environments.reasoning_gym.second_try",
}
TURNS, CHARS = 6, 40
START_SECONDS = 600.0  # for a scoring process to start beside others


def costs(task: str, groups: int) -> dict[str, float]:
    """CPU milliseconds of an episode, median and 99th percentile over groups; and episodes a CPU
    second.
    """
    line = [
        sys.executable,
        "-m",
        "lab.benchmarks.replayed",
        SOURCES[task],
        task,
        str(groups),
    ]
    done = subprocess.run(
        line, capture_output=True, check=True, env={**os.environ, **SET_VARIABLES}
    )
    found = [1000 * seconds / GROUP for seconds in json.loads(done.stdout)]
    cuts = quantiles(found, n=100)
    return {"p50_ms": cuts[49], "p99_ms": cuts[98], "a_second": 1000 / fmean(found)}


def hanging() -> float:
    """Seconds until a group with an episode that hangs is skipped."""
    with closing(ScoringClient(HANGING, "1", TIME_LIMIT)) as client:
        client.ask([("bisect", "tiny", 1, 0, None)])  # waits until it has started
        began = time.perf_counter()
        (reply,) = client.ask([("bisect", "tiny", 1, 0, ((contract.Turn(HANG),),))])
        assert getattr(reply, "reason", "") == contract.TIMEOUT, reply
        return time.perf_counter() - began


def wire_bytes() -> int:
    """Bytes of a sealed group of `GROUP` episodes of `TURNS` turns of `CHARS` characters, those of
    a call included.
    """
    author, arguments = Identity.from_seed_bytes(bytes(32)), '{"expression":"12 * 34"}'
    turn = Turn(
        text="x" * (CHARS - len(arguments)), calls=(Call(name="calculate", arguments=arguments),)
    )
    made = Episode(ended=True, trace="A" * 11, turns=(turn,) * TURNS)
    with closing(
        build_environment(LearningConfig(environment=EnvironmentConfig(tasks=tuple(SOURCES))))
    ) as environment:
        (question,) = environment.sample(author.peer_id, Round(1000), 1)
    group = Group.of_text(author.peer_id, Round(1000), question, (made,) * GROUP).message()
    return len(codec.seal(group, author, "public"))


def diverged(task: str, episodes: int, pythons: list[str]) -> tuple[int, int]:
    """Plays honest episodes here, then again with each of these Pythons, each with another hash
    seed. Returns how many episodes were played here, and how many of the repetitions differ.
    """
    rng, settings = Random(task), EnvironmentConfig(tasks=(task,), scoring="graded")
    config, there = LearningConfig(environment=settings), list[Mixture]()
    with ExitStack() as stack:
        here = stack.enter_context(closing(build_environment(config, prepare=True)))
        for seed, python in enumerate(pythons, 1):
            with (
                mock.patch.dict(SET_VARIABLES, PYTHONHASHSEED=str(seed)),
                mock.patch.object(sys, "executable", python),
            ):
                there.append(stack.enter_context(closing(build_environment(config, prepare=True))))
        count, wrong, now = 0, 0, 0
        while count < episodes:
            now += 1
            questions = here.sample(PeerId("author"), Round(now), 8)
            asked = [
                (question, [turns_of(task, rng) for _ in range(GROUP)]) for question in questions
            ]
            for one, *others in zip(*(each.play(asked) for each in (here, *there)), strict=True):
                ours = one if isinstance(one, tuple) else ()
                count += sum(isinstance(each, Played) for each in ours)
                theirs = [
                    other if isinstance(other, tuple) else (other,) * len(ours) for other in others
                ]
                wrong += sum(
                    each != again
                    for each, *rest in zip(ours, *theirs, strict=True)
                    for again in rest
                )
    return count, wrong


def main() -> None:
    parser = command.parser("lab.benchmarks.replay", __doc__)
    command.add_quick(parser)
    parser.add_argument(
        "--pythons", nargs="*", default=[], help="others that play honest episodes again"
    )
    options = parser.parse_args()
    groups, episodes = (40, 200) if options.quick else (2000, 20_000)
    pythons = [sys.executable, *options.pythons]
    with mock.patch.object(ScoringClient, "start_limit", START_SECONDS):
        honest = {task: diverged(task, episodes // len(SOURCES) + 1, pythons) for task in SOURCES}
    played, wrong = (sum(found) for found in zip(*honest.values(), strict=True))
    print(f"{played} honest episodes, {wrong} diverged elsewhere", flush=True)
    replay = {task: costs(task, groups) for task in SOURCES}
    ends, size = hanging(), wire_bytes()
    rows = [[task, *(f"{value:.2f}" for value in each.values())] for task, each in replay.items()]
    command.show(["CPU of an episode", "p50, ms", "p99, ms", "a second and core"], rows)
    print(f"a hanging one ends after {ends:.2f} s; {size} bytes of a group")
    result = {
        "cpu": replay,
        "hanging_seconds": ends,
        "wire_bytes": size,
        "honest": played,
        "diverged": wrong,
    }
    command.finish(options, {**result, **command.versions("reasoning-gym")})


if __name__ == "__main__":
    main()
