"""Chat templates, rendered in a child process that can do nothing else.

A chat template comes with a model, and is a program. Jinja's sandbox keeps it from reaching
Python's objects, but not from taking time or memory: `{{ 9**(9**9) }}` computes for ever, and
`range(99999)|map('center', 99999)` makes ten gigabytes. A template may also do so for long
questions only, so to try it when the model is loaded is not enough.

So this process never compiles or runs a template. `rendered` sends it to a child with its turns,
and gets the text (confined_child.py). The child (template_child.py) is Python with Jinja, without
torch, in half a gigabyte of memory and two seconds of CPU time in its life. A text takes it less
than a millisecond. A child that has used up its time on honest texts is replaced by a fresh one, in
which the text gets the whole time. If a fresh one ends, too, the template is at fault, and is not
tried again.

What the template of a child does cannot change what another template writes: a child serves one
template alone.
"""

import atexit
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from swarm_node.common.errors import printable
from swarm_node.policy.confined_child import ConfinedChild, Ended, NotStarted
from swarm_node.policy.template_child import CPU_SECONDS, MEMORY

EXTRA_CHARS = 1 << 18  # that a template may write beside what it was given
MOST_CHILDREN = 8  # a simulation may hold models with so many templates
CHILD = "swarm_node.policy.template_child"


class TemplateFailed(Exception):
    """The template did not give a text; the message says why in a few words."""


class TemplateEndless(TemplateFailed):
    """The template takes too much time or memory for a text, as no honest one does."""


class TemplateRenderer(ConfinedChild):
    """A process that renders one template."""

    def __init__(self, template: str) -> None:
        super().__init__(CHILD, [template])
        self._endless = False  # whether it is not to be tried again

    def render(self, values: Mapping[str, Any]) -> str:
        """The text that the template makes of these values. Raises TemplateFailed."""
        with self.alone:
            while not self._endless:
                if not self.runs:
                    self._start()
                fresh = self.fresh
                try:
                    return self._asked(values)
                except Ended:
                    self._endless = fresh
            raise TemplateEndless(f"does not end within {CPU_SECONDS} s and {MEMORY >> 20} MB")

    def _start(self) -> None:
        try:
            self.start()
        except NotStarted as error:
            raise TemplateFailed(f"cannot be rendered, {error}") from error

    def _asked(self, values: Mapping[str, Any]) -> str:
        answer = self.ask(values)
        text = answer.get("text")
        if not isinstance(text, str):
            self.close()
            raise Ended
        if answer.get("failed"):
            raise TemplateFailed(text)
        return text


_children: OrderedDict[str, TemplateRenderer] = OrderedDict()
_choosing = threading.Lock()


def render(template: str, turns: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> str:
    """The text that this chat template makes of a chat. `values`: what it is told beside the turns.
    Raises TemplateFailed.
    """
    with _choosing:
        child = _children.setdefault(template, TemplateRenderer(template))
        _children.move_to_end(template)
        old = _children.popitem(last=False)[1] if len(_children) > MOST_CHILDREN else None
    if old is not None:
        with old.alone:
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
