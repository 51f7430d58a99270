"""Processes of `lab.fuzzing.hostile_peer`: holds each to a share of a core and measures its CPU
time. For `lab.studies.storm` and `lab.studies.hundred`.
"""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil

from lab.studies.guests import ROOT

HOLD_SECONDS = 0.1  # between two readings of an attacker's CPU time
FAMILY_SECONDS = 1.0  # between two searches for its children
BURST = 1.0  # seconds of CPU time by which it may exceed its share
STOP_SECONDS = 30.0
# Taken in turn by one attacker after another
ROLES = (("hangs",), ("reflections",), ("floods", "junk"), ("poison",))
STEADY_SECONDS = 1e9  # life of an identity that must be in good standing
FICKLE_SECONDS = 60.0  # life of one that nodes find out
PORTS = (4001, 4002, 4003, 4004)


class Attacker:
    """One hostile process and its daemon."""

    def __init__(
        self, arguments: Sequence[str], share: float, log: Path, inside: Sequence[str] = ()
    ) -> None:
        """`share`: of a core that it may use; 0 for no limit. `inside`: words that its command
        begins with, such as those that enter a network namespace.
        """
        words = [*inside, sys.executable, "-m", "lab.fuzzing.hostile_peer", *arguments]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors)
        self._root = psutil.Process(self._process.pid)
        self._family: list[psutil.Process] = [self._root]
        self._looked, self._began = 0.0, time.monotonic()
        self._share, self._held = share, False
        self._spent = 0.0  # seconds of CPU, as of the last look
        self.counts: dict[str, int] = {}

    def hold(self) -> None:
        """Stops the process if it has used up its share, and continues it if not."""
        now, share = time.monotonic(), self._share
        if now - self._looked > FAMILY_SECONDS:
            self._family, self._looked = self.family(), now
        held = share > 0 and self.cpu() > share * (now - self._began) + BURST
        if held or self._held:
            self._signal(signal.SIGSTOP if held else signal.SIGCONT)
        self._held = held

    def cpu(self) -> float:
        """Seconds of CPU time since its start, those of its ended daemons included."""
        total = 0.0
        for each in self._family:
            with suppress(psutil.Error):
                times = each.cpu_times()
                total += times.user + times.system
                total += times.children_user + times.children_system if each is self._root else 0.0
        self._spent = max(self._spent, total)
        return self._spent

    def family(self) -> list[psutil.Process]:
        """The process and its daemon."""
        with suppress(psutil.Error):
            return [self._root, *self._root.children(recursive=True)]
        return [self._root]

    def close(self) -> None:
        """Ends the process, and reads into `counts` what it did."""
        self._signal(signal.SIGCONT)
        self._process.terminate()
        try:
            said = self._process.communicate(timeout=STOP_SECONDS)[0]
            self.counts = json.loads(said.splitlines()[-1]) if said.strip() else {}
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.communicate()

    def _signal(self, number: int) -> None:
        for each in self._family:
            with suppress(psutil.Error, ProcessLookupError):
                each.send_signal(number)


class Attackers:
    """Several attackers, and a thread that holds them to their shares."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._members: list[Attacker] = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._work, name="attackers")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        for member in self._members:
            member.close()

    def add(
        self,
        kinds: Sequence[str],
        peers: Sequence[str],
        swarm: str,
        log: Path,
        *options: str,
        inside: Sequence[str] = (),
    ) -> None:
        """Starts one more attacker; without kinds it is idle."""
        life = FICKLE_SECONDS if set(kinds) & {"hangs", "reflections", "junk"} else STEADY_SECONDS
        where = ["--peers", *peers, "--swarm", swarm, "--life", str(life), *options]
        words = [*where, "--kinds", *kinds]
        self._members.append(Attacker(words, self._share, log, inside))

    def cpu(self) -> float:
        """Seconds of CPU time of all attackers."""
        return sum(member.cpu() for member in self._members)

    def cpu_of_others(self) -> float:
        """Seconds of CPU time of the other processes that this process started, and of their ended
        children.
        """
        theirs = {each.pid for member in self._members for each in member.family()}
        total = 0.0
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                if each.pid not in theirs:
                    times = each.cpu_times()
                    total += times.user + times.system + times.children_user + times.children_system
        return total

    def counts(self) -> dict[str, int]:
        """What all attackers did, once they are closed."""
        names = sorted({name for member in self._members for name in member.counts})
        return {name: sum(member.counts.get(name, 0) for member in self._members) for name in names}

    def _work(self) -> None:
        while not self._done.wait(HOLD_SECONDS):
            for member in list(self._members):
                member.hold()


def kinds_of(number: int, count: int) -> tuple[str, ...]:
    """The kinds of attack of the attacker with this number; a lone attacker has them all."""
    if count == 1:
        return tuple(kind for role in ROLES for kind in role)
    return ROLES[number % len(ROLES)]


class Victim:
    """UDP ports that announcements name for peers that do not exist; counts what arrives."""

    def __init__(self, address: str) -> None:
        self.packets = self.bytes = 0
        self._sockets = []
        for port in PORTS:
            each = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
            each.bind((address, port))
            each.setblocking(False)
            self._sockets.append(each)

    def look(self, _: float = 0.0) -> None:
        """Counts what has arrived since the last time."""
        for each in self._sockets:
            with suppress(BlockingIOError):
                while data := each.recv(65536):
                    self.packets += 1
                    self.bytes += len(data)

    def close(self) -> None:
        for each in self._sockets:
            each.close()
