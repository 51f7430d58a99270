"""What a page may tell its node to do: to rest, to go on, to ask held-out questions now. Each is a file in the home,
as with `swarm-node pause`; nothing that is posted becomes a name or an argument."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from swarm_node.common.files import open_to_write
from swarm_node.extensions.page.asking import Ask
from swarm_node.extensions.page.guard import posted
from swarm_node.settings.programs import PAUSE_FILE, VALIDATE_FILE

ACT = "/api/act"  # takes {"do": one of ACTS}
ACTS: Mapping[str, Callable[[Path], None]] = {
    "pause": lambda home: open_to_write(home / PAUSE_FILE).close(),
    "resume": lambda home: (home / PAUSE_FILE).unlink(missing_ok=True),
    "validate": lambda home: open_to_write(home / VALIDATE_FILE).close(),
}
MOST_BYTES = 256


def route(home: Path) -> Route:
    """204 where it is done. The guard has seen that it comes from this page, with the token."""

    async def act(request: Request) -> Response:
        try:
            ACTS[(await posted(request, MOST_BYTES))["do"]](home)
        except (ValueError, KeyError, TypeError):
            return PlainTextResponse(f"400: there is {', '.join(ACTS)}\n", 400)
        except OSError as error:
            return PlainTextResponse(f"409: {error.strerror}\n", 409)
        return Response(status_code=204)

    return Route(ACT, act, methods=["POST"])


def with_pause(ask: Ask) -> Ask:
    """The node's answer, and whether it was told to rest: a round that goes on ends first."""

    def asked(home: Path) -> dict[str, Any]:
        return ask(home) | {"paused": (home / PAUSE_FILE).exists()}

    return asked
