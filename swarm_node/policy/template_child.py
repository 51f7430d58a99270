"""The process that renders a chat template: templates.py says why, and starts it.

The template sees what it sees in transformers: the same names and filters, in Jinja's sandbox. A
test compares the texts that both make of the same chats.
"""

import json
import os
import sys
from contextlib import suppress
from datetime import datetime
from typing import Any

import jinja2.ext
from jinja2 import TemplateError, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from swarm_node.common.errors import printable
from swarm_node.policy.confined import answer, confined

CPU_SECONDS = 2  # of this process, in its life
MEMORY = 512 * 1024 * 1024  # bytes of address space


class Generation(jinja2.ext.Extension):
    """What stands between `generation` and `endgeneration` is written as it is."""

    tags = {"generation"}  # noqa: RUF012  (as Jinja declares it)

    def parse(self, parser: Any) -> nodes.Node:
        """The block, with a scope of its own."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class PlainNamespace(Namespace):
    """A namespace whose names do not begin with an underscore, as those of Python's internals
    do.
    """

    def __init__(*arguments: Any, **named: Any) -> None:
        self, *given = arguments
        held = dict(*given, **named)
        for name in held:
            _check(name)
        Namespace.__init__(self, held)

    def __setitem__(self, name: str, value: Any) -> None:
        _check(name)
        super().__setitem__(name, value)


class Dict:
    """What templates call `dict`: it makes one, and leads to nothing else."""

    def __call__(self, *given: Any, **named: Any) -> dict[Any, Any]:
        return dict(*given, **named)

    def fromkeys(self, *given: Any) -> dict[Any, Any]:
        """Makes a dictionary as `dict.fromkeys` of Python does."""
        return dict.fromkeys(*given)


def _check(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace cannot hold {name!r}")


def _refuse(message: Any) -> None:
    raise TemplateError(message)


def _as_json(value: Any, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, **options)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def compiled(template: str) -> jinja2.Template:
    """The template as transformers compiles it. Raises what Jinja raises."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _as_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    environment.globals |= {"dict": Dict(), "namespace": PlainNamespace}
    return environment.from_string(template)


def serve(parent: int, connection: int) -> None:
    """Reads a template, then values, and writes texts until its parent closes the connection."""
    # All that a template and its errors need is loaded before no file can be opened
    compiled("{{ [1]|tojson }}{{ strftime_now('%d %b %Y') }}").render()
    with suppress(TemplateError):
        compiled("{{ raise_exception('as templates do') }}").render()
    reader = confined(parent, connection, MEMORY, CPU_SECONDS)
    source, template = str(reader.read()), None
    while (values := reader.read()) is not None:
        try:
            template = template or compiled(source)
            rendered: dict[str, Any] = {"text": template.render(**values)}
        except MemoryError:
            os._exit(1)  # nothing can be relied on any more
        except Exception as error:  # noqa: BLE001  (whatever a template raises)
            rendered = {"text": f"fails: {printable(str(error), 100)}", "failed": True}
        answer(rendered)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
