"""What a process of confined_child.py does first: it gives up everything but its connection."""

import os
from functools import partial

from swarm_node.scoring.confinement import confine, silence
from swarm_node.scoring.contract import Reader, encode
from swarm_node.scoring.sandbox import LAST_WRITABLE, Sandbox

READY = "ready"  # what the process says when it is confined


def confined(parent: int, connection: int, memory: int, cpu_seconds: int) -> Reader:
    """Puts this process into the sandbox of scoring, for good. Returns what it reads from now on.
    All that it needs of files has to be loaded before.
    """
    confine(memory)
    silence()
    sandbox = Sandbox()
    os.dup2(connection, LAST_WRITABLE)
    sandbox.enter(parent, cpu_seconds)
    answer(READY)
    return Reader(partial(os.read, LAST_WRITABLE))


def answer(value: object) -> None:
    """Writes a frame to the process that asked."""
    data = encode(value)
    while data:
        data = data[os.write(LAST_WRITABLE, data) :]
