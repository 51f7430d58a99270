"""Groups as a node publishes them, and the CPU time of its network: what hostile peers and swarms of networks share."""

import os

import psutil

from protocol.addressing import question_seed
from protocol.identity import Identity
from protocol.messages import Episode, Question, RolloutGroup, Round

GROUPS, GROUP_BYTES, WANTED = 9, 10_000, 4
COMPLETIONS = 8
START_SECONDS = 120.0


def group(swarm: str, identity: Identity, number: int, index: int) -> RolloutGroup:
    """10 KB of incompressible text, in 8 completions."""
    text = os.urandom(GROUP_BYTES // COMPLETIONS // 2).hex()
    seed = question_seed(swarm, identity.peer_id, Round(number))
    address = {"environment": "benchmark", "version": "1", "dataset": "noise", "config_id": "plain", "digest": "A" * 11}
    question = Question(**address, seed=seed, index=index)
    completions = tuple(Episode.of(text=f"{k}{text}", ended=True) for k in range(COMPLETIONS))
    return RolloutGroup(author=identity.peer_id, round=Round(number), question=question, episodes=completions)


def cpu_seconds() -> float:
    """Of the network processes and their daemons; this process, which stands for the trainers, is left out."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        times = process.cpu_times()
        total += times.user + times.system
    return total
