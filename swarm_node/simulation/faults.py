"""Which nodes of a simulation take part in which round: some die, join late or are slow. This file
decides nothing else. Who asks it is cell.py; messages are lost and delayed in
network/in_memory.py.

Rounds count from 0. `join NODE@ROUND` gives the first round of a node, `die NODE@ROUND` the first
without it, and `slow NODE@k` lets it take part in every k-th round from its first on.
"""

import re
from collections.abc import Sequence

from swarm_node.common.errors import UserError
from swarm_node.settings.simulation import FaultsConfig


class Schedule:
    """The nodes of each round. Raises UserError, at construction, for a fault that cannot happen in
    this run.
    """

    def __init__(self, faults: FaultsConfig, nodes: int, rounds: int) -> None:
        self._nodes = nodes
        self._last = _parse("die", faults.die, nodes)
        self._first = _parse("join", faults.join, nodes)
        self._pace = _parse("slow", faults.slow, nodes)
        for name, given in (("die", self._last), ("join", self._first)):
            for node, number in given.items():
                if number >= rounds:
                    raise UserError(
                        f"--faults.{name} {node}@{number}: the run has rounds 0 to {rounds - 1} "
                        "only; name an earlier one, or more --rounds"
                    )
        for node, end in self._last.items():
            if end <= self._first.get(node, 0):
                raise UserError(
                    f"--faults.die {node}@{end}: node {node} would never take part; let it die "
                    "later than it joins"
                )
        for node, pace in self._pace.items():
            if pace == 0:
                raise UserError(
                    f"--faults.slow {node}@0: a slow node takes part in every k-th round, with k "
                    "at least 1"
                )
        for number in range(rounds):
            if not self.present(number):
                raise UserError(
                    f"these faults leave no node in round {number}: let fewer die, or some join "
                    "earlier"
                )

    def present(self, number: int) -> list[int]:
        """Nodes that are in the swarm in this round, in order."""

        def is_there(node: int) -> bool:
            return self._first.get(node, 0) <= number < self._last.get(node, number + 1)

        return list(filter(is_there, range(self._nodes)))

    def active(self, number: int) -> list[int]:
        """The present nodes that take part in this round: slow nodes skip rounds."""

        def takes_part(n: int) -> bool:
            return (number - self._first.get(n, 0)) % self._pace.get(n, 1) == 0

        return list(filter(takes_part, self.present(number)))


def _parse(name: str, specs: Sequence[str], nodes: int) -> dict[int, int]:
    """The entries NODE@NUMBER of an option, as node -> number. UserError for a wrong one."""
    found: dict[int, int] = {}
    for spec in specs:
        match = re.fullmatch(r"(\d{1,6})@(\d{1,9})", spec, re.ASCII)
        if match is None:
            shape = "NODE@k" if name == "slow" else "NODE@ROUND"
            raise UserError(f"--faults.{name} {spec!r} is not {shape}, such as 3@40")
        node, number = int(match[1]), int(match[2])
        if node >= nodes:
            raise UserError(
                f"--faults.{name} {spec}: there is no node {node}; nodes are 0 to {nodes - 1}, and "
                "--nodes makes more"
            )
        if node in found:
            raise UserError(f"--faults.{name}: node {node} is given twice; remove one")
        found[node] = number
    return found
