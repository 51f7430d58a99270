"""The node's end of `open.py`, which scores outside the sandbox. For local completions only."""

import sys
from pathlib import Path
from typing import Any

from swarm_node.common.children import without_secrets
from swarm_node.scoring.client import ScoringClient


class AloneScoring(ScoringClient):
    """One process with the user's environment and folder."""

    start_limit = 300.0  # seconds: verifiers is large, and a task set may import more

    def __init__(self, file: Path, version: str) -> None:
        super().__init__("", version, 0.0)
        self._file, self.patience = file, 300.0  # for the scores of a group: another model may score

    def _program(self, lifeline: int) -> dict[str, Any]:
        command = [sys.executable, "-P", "-m", "swarm_node.extensions.taskset.open", str(self._file)]
        return {"args": command, "env": without_secrets()}
