"""A worker process whose nodes are one number each, so that the engine is tested without torch.

A node's skill is its reward; external groups make it grow. The model's name says what trouble to
make.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from protocol.messages import PeerId, Round
from swarm_node.common.errors import UserError
from swarm_node.rollouts.groups import RoundReport, StepReport
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import node_config
from swarm_node.simulation.cell import PopulationHere
from swarm_node.simulation.engines.engine import RunningCell
from swarm_node.simulation.worker import serve


def report(
    node: int = 0, number: int = 0, reward: float = 0.5, external: int = 0, **changes
) -> RoundReport:
    who = {"peer_id": PeerId(f"peer-{node}"), "round": Round(number)}
    earned = {
        "reward": reward,
        "reward_by_task": {"gcd/easy": reward},
        "skipped": {},
        "rejected": {},
    }
    written = {
        "rollouts": 72,
        "generated_tokens": 500,
        "mean_length": 7.0,
        "ended_share": 1.0,
        "pool_size": 3,
    }
    groups = {
        "local_groups": 4,
        "local_informative": 2,
        "external_informative": external,
        "informative_share": 0.5,
    }
    step = StepReport(optimizer_steps=1, trained_tokens=100 + 10 * external)
    spent = {"step": step, "seconds": {"generate": 0.2, "train": 0.3}}
    return RoundReport(**{**who, **earned, **written, **groups, **spent, **changes})


@dataclass
class FakeNode:
    index: int
    config: SimulationConfig
    board: list[tuple[int, int]]  # (round, author) of every group published
    rng: Random
    trouble: str = ""
    skill: float = 0.1
    log: list[str] = field(default_factory=list)

    def produce(self, now: Round) -> Round:
        self.log.append(f"produce {now}")
        self.board.append((now, self.index))
        make_trouble(self.trouble, now, self.config)
        return now

    def consume(self, now: Round) -> RoundReport:
        self.log.append(f"consume {now}")
        received = sum(number == now and author != self.index for number, author in self.board)
        external = min(received, self.config.round.external_groups)
        reward = self.skill
        self.skill = min(1.0, self.skill + 0.002 * external + 0.004 * self.rng.random())
        return report(self.index, now, reward, external)


class FakePopulation(PopulationHere):
    def __init__(self, config: SimulationConfig) -> None:
        super().__init__()
        self.config = config
        self.board: list[tuple[int, int]] = []
        self.nodes: dict[int, FakeNode] = {}
        self.history: list[str] = []

    def make(self, node: int) -> FakeNode:
        self.history.append(f"join {node}")
        own = node_config(self.config, node)
        rng = Random(f"{self.config.seed}/{node}")
        self.nodes[node] = FakeNode(node, self.config, self.board, rng, trouble=own.model.name)
        return self.nodes[node]

    def leave(self, nodes) -> None:
        super().leave(nodes)
        self.history += [f"leave {node}" for node in nodes]

    def evaluate(self, nodes):
        return [{"chain_sum/tiny": self.nodes[node].skill, "gcd/tiny": 0.5} for node in nodes]

    def close(self) -> None:
        self.history.append("close")


def make_trouble(kind: str, now: int, config: SimulationConfig) -> None:
    """Makes trouble in round 2 alone, and only while the file named behind the colon exists (or no
    file is named).
    """
    kind, _, file = kind.partition(":")
    if now != 2 or (file and not Path(file).exists()):
        return
    while kind == "waits" and Path(file).exists():
        time.sleep(0.02)
    if kind == "raises":
        raise ValueError("no such\nweights")
    if kind == "raises-for-sharers" and config.round.external_groups:
        raise ValueError("no such weights")
    if kind == "user-error":
        raise UserError("model folder nowhere: not found")
    if kind == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exits":
        os._exit(3)
    if kind == "prints":
        sys.stdout.write("noise from a library\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(lambda config, cell: RunningCell(config, cell, FakePopulation(config)))
