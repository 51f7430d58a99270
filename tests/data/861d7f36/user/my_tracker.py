from pathlib import Path

from swarm_node.rollouts.groups import figures
from swarm_node.telemetry.events import Event, RoundDone


class Rewards:
    def __init__(self, folder: Path) -> None:
        self._file = (folder / "rewards.txt").open("a", buffering=1)

    def take(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self._file.write(f"{event.report.round} {figures(event.report)['reward']}\n")

    def close(self) -> None:
        self._file.close()
