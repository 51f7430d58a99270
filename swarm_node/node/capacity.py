"""How far generation may run ahead of training (AReaL, arXiv 2505.24298, section 5.1). Pure counting.

A trajectory is admitted only if, trained on in order and in batches of B, it will be at most `max_staleness` updates
old: number N, from 1, needs floor((N - 1) / B) <= version + max_staleness. With 0 generation and training alternate.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Capacity:
    """Counts trajectories. `version` is the number of updates done, each of which consumes one batch."""

    batch: int  # B: trajectories of one update
    max_staleness: int  # eta: updates
    max_concurrent: int  # trajectories under way at once
    version: int = 0
    accepted: int = 0  # finished so far, trained on or not
    running: int = 0  # started and not finished

    def free(self) -> int:
        """How many trajectories may be started now."""
        by_staleness = (self.max_staleness + self.version + 1) * self.batch - (self.accepted + self.running)
        return max(0, min(self.max_concurrent - self.running, by_staleness))

    def start(self, count: int) -> None:
        if count > self.free():
            raise ValueError(f"{count} trajectories started with room for {self.free()}")
        self.running += count

    def finish(self, count: int) -> None:
        """Of those running, `count` ended and wait to be trained on."""
        self._ended(count)
        self.accepted += count

    def lose(self, count: int) -> None:
        """Of those running, `count` were lost, since their process died. Others may start in their place."""
        self._ended(count)

    def update(self) -> None:
        """One batch was trained on."""
        if self.accepted < (self.version + 1) * self.batch:
            raise ValueError(f"update {self.version} without a batch of its own")
        self.version += 1

    def _ended(self, count: int) -> None:
        if count > self.running:
            raise ValueError(f"{count} trajectories ended, {self.running} were running")
        self.running -= count
