"""Asks the running node how it is, only while somebody looks; and takes a viewer's commands to it:
to rest, to go on, to ask held-out questions now. Each command is a file in the home, as with
`swarm-node pause`; nothing that is posted becomes a file name or an argument.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from swarm_node.common.errors import reason_of
from swarm_node.common.files import open_to_write
from swarm_node.page.guard import posted
from swarm_node.settings.limits import PAUSE_FILE, VALIDATE_FILE

Ask = Callable[[Path], dict[str, Any]]  # as commands.status.ask

EVERY = 2.0  # seconds between two questions
LOOKED = 15.0  # seconds for which the node is asked after somebody looked
ACT = "/api/act"  # takes {"do": one of ACTS}
ACTS: Mapping[str, Callable[[Path], None]] = {
    "pause": lambda home: open_to_write(home / PAUSE_FILE).close(),
    "resume": lambda home: (home / PAUSE_FILE).unlink(missing_ok=True),
    "validate": lambda home: open_to_write(home / VALIDATE_FILE).close(),
}
MOST_BYTES = 256


class Asking:
    """Keeps the newest answer. The socket is asked in a thread: a node that hangs must not hang its
    page.
    """

    def __init__(self, home: Path, ask: Ask, clock: Callable[[], float]) -> None:
        self._home, self._ask, self._clock = home, ask, clock
        self._wanted_until, self._asked = 0.0, -EVERY
        self._lock = asyncio.Lock()
        self.answer: dict[str, Any] = {}
        self.number = 0  # of answers so far

    def want(self) -> None:
        """Tells that somebody looks: `follow` goes on asking for `LOOKED` seconds."""
        self._wanted_until = self._clock() + LOOKED

    async def follow(self) -> None:
        """Asks the node for ever, whenever somebody looks."""
        while True:
            if self._clock() < self._wanted_until:
                await self._renew()
            await asyncio.sleep(EVERY / 4)

    async def fresh(self) -> dict[str, Any]:
        """An answer that is at most a few seconds old; the last one where the node is slow."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._renew(), EVERY)
        return self.answer

    async def _renew(self) -> None:
        async with self._lock:
            if self._clock() - self._asked < EVERY:
                return
            try:
                self.answer = await asyncio.to_thread(self._ask, self._home)
            except Exception:  # noqa: BLE001  whatever lies in a folder that may be a stranger's
                self.answer = {}
            self._asked = self._clock()
            self.number += 1


def route(home: Path) -> Route:
    """The route for commands; 204 if done. The guard has checked that they come from this page,
    with the token.
    """

    async def act(request: Request) -> Response:
        try:
            ACTS[(await posted(request, MOST_BYTES))["do"]](home)
        except (ValueError, KeyError, TypeError):
            return PlainTextResponse(f"400: there is {', '.join(ACTS)}\n", 400)
        except OSError as error:
            return PlainTextResponse(f"409: {reason_of(error)}\n", 409)
        return Response(status_code=204)

    return Route(ACT, act, methods=["POST"])


def with_pause(ask: Ask) -> Ask:
    """Adds `paused` to the node's answer: whether it was told to rest. It first ends the round that
    it is in.
    """
    return lambda home: ask(home) | {"paused": (home / PAUSE_FILE).exists()}
