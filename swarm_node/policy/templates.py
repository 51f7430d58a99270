"""Chat templates, rendered in a child process that can do nothing else.

A chat template comes with a model, and is a program. Jinja's sandbox keeps it from reaching
Python's objects, but not from taking time or memory: `{{ 9**(9**9) }}` computes for ever, and
`range(99999)|map('center', 99999)` makes ten gigabytes. A template may also do so for long
questions only, so to try it when the model is loaded is not enough.

So this process never compiles or runs a template. `rendered` sends it to a child with its turns,
and gets the text. The child (template_child.py) is Python with Jinja, without torch, and enters the
sandbox of scoring before it reads the first template (scoring/sandbox.py): no file, no socket, no
other process, half a gigabyte of memory, two seconds of CPU time in its life. It stays for the next
text, since a start takes a quarter of a second and a text less than a millisecond. A child that has
used up its time on honest texts is replaced by a fresh one, in which the text gets the whole time.
If a fresh one ends, too, the template is at fault, and is not tried again.

What the template of a child does cannot change what another template writes: a child serves one
template alone.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from swarm_node.common.children import clean_environment
from swarm_node.common.errors import printable
from swarm_node.policy.template_child import CPU_SECONDS, MEMORY, READY
from swarm_node.scoring.contract import BrokenFrame, Reader, encode

WALL_SECONDS = 60.0  # for a text; on a machine that is busy, two seconds of CPU time take longer
EXTRA_CHARS = 1 << 18  # that a template may write beside what it was given
MOST_CHILDREN = 8  # a simulation may hold models with so many templates
CHILD = "swarm_node.policy.template_child"


class TemplateFailed(Exception):
    """The template did not give a text; the message says why in a few words."""


class TemplateEndless(TemplateFailed):
    """The template takes too much time or memory for a text, as no honest one does."""


class _Ended(Exception):
    """The child ended while it rendered."""


class Child:
    """A process that renders one template."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._fresh = False  # whether it has rendered nothing yet
        self._endless = False  # whether it is not to be tried again
        self._alone = threading.Lock()

    def render(self, values: Mapping[str, Any]) -> str:
        """The text that the template makes of these values. Raises TemplateFailed."""
        with self._alone:
            while not self._endless:
                if self._process is None:
                    self._start()
                fresh = self._fresh
                try:
                    return self._asked(values)
                except _Ended:
                    self.close()
                    self._endless = fresh
            raise TemplateEndless(f"does not end within {CPU_SECONDS} s and {MEMORY >> 20} MB")

    def close(self) -> None:
        """Ends the process."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._connection = None

    def _start(self) -> None:
        self._connection, theirs = socket.socketpair()
        self._connection.settimeout(WALL_SECONDS)
        line = [sys.executable, "-s", "-P", "-m", CHILD, str(os.getpid()), str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=clean_environment(),
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C is for this process
            )
        self._reader = Reader(self._connection.recv)
        self._fresh = True
        try:
            self._connection.sendall(encode(self._template))
            ready = self._reader.read()
        except (OSError, BrokenFrame) as error:
            self.close()
            raise TemplateFailed("cannot be rendered, its process did not start") from error
        if ready != READY:
            self.close()
            raise TemplateFailed("cannot be rendered, its process ended while it started")

    def _asked(self, values: Mapping[str, Any]) -> str:
        assert self._connection is not None
        try:
            self._connection.sendall(encode(values))
            answer = self._reader.read()
        except (OSError, BrokenFrame) as error:
            raise _Ended from error
        if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
            raise _Ended
        self._fresh = False
        if answer.get("failed"):
            raise TemplateFailed(answer["text"])
        text: str = answer["text"]
        return text


_children: OrderedDict[str, Child] = OrderedDict()
_choosing = threading.Lock()


def render(template: str, turns: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """The text that this chat template makes of a chat. `values`: what it is told beside the turns.
    Raises TemplateFailed.
    """
    with _choosing:
        child = _children.setdefault(template, Child(template))
        _children.move_to_end(template)
        old = _children.popitem(last=False)[1] if len(_children) > MOST_CHILDREN else None
    if old is not None:
        with old._alone:
            old.close()
    try:
        given = {"messages": turns, **values}
        most = len(json.dumps(given)) + EXTRA_CHARS
        text = child.render(given)
    except (TypeError, ValueError) as error:  # a value that JSON cannot hold
        raise TemplateFailed(f"fails: {printable(str(error), 100)}") from error
    if len(text) > most:
        raise TemplateFailed(f"writes more than {EXTRA_CHARS} characters in addition to its turns")
    return text


@atexit.register
def close() -> None:
    """Ends all children. The next text starts one again."""
    with _choosing:
        for child in _children.values():
            child.close()
        _children.clear()
