"""Questions that misbehave: scorers as an answer says, builders as a dataset says. Loaded by a
scoring process.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

version = "hostile-1"


def busy() -> float:
    while True:
        pass


def patch() -> float:
    """Does what one answer to string_insertion did to the library: makes every later answer
    right.
    """
    Item.score = lambda self, text: 1.0  # type: ignore[method-assign]
    return 1.0


def connect() -> float:
    with socket.socket() as connection:
        connection.connect(("127.0.0.1", 9))
    return 1.0


def fork() -> float:
    while True:
        os.fork()


def chatter() -> float:
    os.write(1, b"\x00\x00\x00\x02[]\x1b[2J")
    for stream in (sys.stdout, sys.stderr):
        stream.write("noise")
        stream.flush()
    return 1.0


def spend(seconds: float) -> float:
    """Spends this time without sleeping, which the sandbox forbids."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    return 1.0


def write_file() -> float:
    with open("/tmp/written-by-a-scorer", "w") as file:
        file.write("x")
    return 1.0


def lie() -> float:
    """As an answer that has taken the child over: writes a reply to every open descriptor."""
    for descriptor in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\x00\x00\x00\x0d[1.0,1.0,7.5]")
    return 1.0


BEHAVIOUR: dict[str, Callable[[], Any]] = {
    "busy": busy,
    "chatter": chatter,
    "die": lambda: ctypes.string_at(0),
    "connect": connect,
    "eat": lambda: len(bytearray(8 * 1024**3)),
    "exec": lambda: os.execv(sys.executable, [sys.executable, "-c", ""]),
    "fork": fork,
    "infinite": lambda: float("inf"),
    "kill": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "leave": lambda: sys.exit(0),
    "lie": lie,
    "look": lambda: len(os.listdir("/")),
    "nan": lambda: float("nan"),
    "negative": lambda: -0.5,
    "none": lambda: None,
    "patch": patch,
    "raise": lambda: 1 / 0,
    "read": lambda: float(len(sys.stdin.read())),
    "recurse": lambda: BEHAVIOUR["recurse"](),
    "sleep": lambda: time.sleep(3600.0),
    "tenth": lambda: spend(0.1),
    "two": lambda: 2.0,
    "write": write_file,
}


class Item:
    def __init__(self, dataset: str) -> None:
        self.prompt = f"{dataset}?"
        self.dataset = dataset

    def score(self, text: str) -> float:
        return BEHAVIOUR[text]() if text in BEHAVIOUR else float(text == "right")


class Self:
    """A look at the process from inside."""

    prompt = repr(
        {
            "environment": sorted(os.environ),
            "modules": sorted(
                name for name in ("torch", "transformers", "pydantic") if name in sys.modules
            ),
            "files": len(os.listdir("/proc/self/fd")) - 1 if os.path.isdir("/proc/self/fd") else 0,
            "hash": hash("swarm"),
        }
    )

    def score(self, text: str) -> float:
        return 0.0


def build(dataset: str, config_id: str, seed: int, index: int) -> Item | Self:
    if dataset == "slow":
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
    if dataset == "endless":
        while True:
            with contextlib.suppress(Exception):  # as some generators do
                sum(range(1000))
    if dataset == "broken":
        raise KeyError(config_id)
    return Self() if dataset == "self" else Item(dataset)
