"""The node's end of `open.py`, behind the interface of a pool of scoring processes. For local completions only."""

import math
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from swarm_node.common.children import without_secrets
from swarm_node.rollouts.groups import Skipped
from swarm_node.scoring import contract
from swarm_node.scoring.client import Item, Reply, ScoringUnavailable
from swarm_node.scoring.frames import BrokenFrame, Reader, encode

SECONDS = 300.0  # for the scores of a group: another model may score


class AloneScoring:
    """One process, started by `prepare` or the first question, and again after it hung or died."""

    restarts = 0

    def __init__(self, file: Path) -> None:
        self._file = file
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    @property
    def layers(self) -> Mapping[str, bool]:
        return {}

    def prepare(self) -> None:
        with self._lock:
            self._start()

    def ask(self, items: Sequence[Item]) -> list[Reply]:
        with self._lock:
            return [self._one(item) for item in items]

    def close(self) -> None:
        with self._lock:
            self._stop()

    def _one(self, item: Item) -> Reply:
        self._start()
        assert self._socket is not None
        _, config_id, seed, index, texts = item
        self._socket.settimeout(SECONDS)
        try:
            self._socket.sendall(encode([[config_id, seed, index], texts]))
            said = Reader(self._socket.recv).read()
        except TimeoutError:
            return self._failed(contract.TIMEOUT)
        except (OSError, BrokenFrame):
            return self._failed(contract.CRASHED)
        if said is None:
            return self._failed(contract.CRASHED)
        if isinstance(said, str):
            return said
        if not said:
            return Skipped(contract.SCORER_RAISED)
        good = all(isinstance(value, float) and math.isfinite(value) and 0.0 <= value <= 1.0 for value in said)
        return tuple(said) if good else Skipped(contract.NOT_A_SCORE)

    def _failed(self, reason: str) -> Skipped:
        self._stop()
        self.restarts += 1
        return Skipped(reason)

    def _start(self) -> None:
        if self._process is not None:
            return
        self._socket, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", "swarm_node.extensions.taskset.open", str(self._file)]
        null = subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(
                command, stdin=theirs.fileno(), stdout=null, stderr=null, env=without_secrets(), start_new_session=True
            )
        except OSError as error:
            raise ScoringUnavailable(f"the scoring process does not start: {error}") from error
        finally:
            theirs.close()

    def _stop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._socket = None
