"""The routes of a page. Everything is read-only; what is not named here does not exist."""

import asyncio
import json
import sys
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swarm_node.common.children import OF_THE_USER, clean_environment
from swarm_node.extensions.page.about import about
from swarm_node.extensions.page.metrics import CONTENT_TYPE, exposition
from swarm_node.extensions.page.page import Page
from swarm_node.extensions.page.public import PublicView
from swarm_node.extensions.page.stream import Stream
from swarm_node.rollouts.reports import METRICS

MOST_VIEWERS = 100
DOCTOR_SECONDS = 120.0
LATER = {"retry-after": "30"}
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def static_files() -> Mapping[str, Response]:
    """What ships, by name: a path that is asked for is only ever looked up here."""
    folder = resources.files("swarm_node.extensions.page") / "static"
    return {
        file.name: Response(file.read_bytes(), media_type=TYPES[suffix])
        for file in folder.iterdir()
        if (suffix := file.name.rpartition(".")[2]) in TYPES
    }


class Answers:
    """What each route says."""

    def __init__(self, page: Page, public: PublicView | None) -> None:
        self._page, self._public = page, public
        self._files = static_files()
        self._doctor = Doctor(page.folder)

    async def file(self, request: Request) -> Response:
        """What ships, by name."""
        found = self._files.get(request.path_params["name"])
        return found or Response("404: no such file\n", 404, media_type="text/plain")

    async def index(self, _: Request) -> Response:
        """The page of a run."""
        return self._files["index.html"]

    async def front(self, _: Request) -> Response:
        """The public view."""
        return self._files["public.html"]

    async def state(self, _: Request) -> Response:
        """All that a browser begins with."""
        units = {name: {"unit": metric.unit, "meaning": metric.meaning} for name, metric in METRICS.items()}
        return answer({**self._page.state(), "metrics": units})

    async def samples(self, _: Request) -> Response:
        """The last samples of rollouts."""
        samples = self._page.samples
        return answer({"number": samples.number, "samples": samples.last()})

    async def about(self, _: Request) -> Response:
        """What the run is."""
        return answer(await asyncio.to_thread(about, self._page.folder))

    async def doctor(self, _: Request) -> Response:
        """What doctor finds."""
        return answer(await self._doctor.findings())

    async def metrics(self, _: Request) -> Response:
        """For Prometheus. Sums over a part of the events would look like a counter that leaps."""
        if self._page.loading or self._page.watched.partial:
            return Response("503: older events are still read\n", 503, media_type="text/plain", headers=LATER)
        status = await self._page.asking.fresh() if self._page.node is not None else {}
        return Response(exposition(self._page, status), media_type=CONTENT_TYPE)

    async def public(self, _: Request) -> Response:
        """What everybody may see."""
        return answer(self._public.view() if self._public else {})

    async def stream(self, request: Request) -> Any:
        """News, until the viewer goes."""
        if self._page.viewers >= MOST_VIEWERS:
            return Response("503: too many viewers\n", 503, media_type="text/plain", headers=LATER)
        try:
            serial = int(request.query_params.get("serial", "-1"))
        except ValueError:
            serial = -1
        return Stream(self._page, serial)


def routes(page: Page, public: PublicView | None) -> Starlette:
    """`public`: what everybody may see; then the page itself is at /node."""
    answers = Answers(page, public)
    table = [
        Route("/static/{name}", answers.file),
        Route("/api/state", answers.state),
        Route("/api/samples", answers.samples),
        Route("/api/about", answers.about),
        Route("/api/doctor", answers.doctor),
        Route("/api/stream", answers.stream),
        Route("/metrics", answers.metrics),
        Route("/node" if public else "/", answers.index),
    ]
    if public is not None:
        table += [Route("/", answers.front), Route("/api/public", answers.public)]
    return Starlette(routes=table)


def answer(content: Mapping[str, Any]) -> Response:
    """JSON, whatever text of strangers is in it: `<` never stands in what is sent."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")
    return Response(text, media_type="application/json")


def doctor_command(home: Path) -> list[str]:
    """The home, and nothing that lies in it: it may be a stranger's. -P: nor is code loaded out of the folder that the
    page was started in."""
    return [sys.executable, "-P", "-m", "swarm_node", "doctor", "--home", str(home.absolute())]


class Doctor:
    """`swarm-node doctor`, run on demand, one at a time."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._lock = asyncio.Lock()

    async def findings(self) -> dict[str, Any]:
        """Its lines and its exit code; None where it took too long."""
        async with self._lock:
            process = await asyncio.create_subprocess_exec(
                *doctor_command(self._home),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=clean_environment(OF_THE_USER),
            )
            try:
                said, _ = await asyncio.wait_for(process.communicate(), DOCTOR_SECONDS)
            except TimeoutError:
                process.kill()
                return {"lines": [f"doctor took more than {DOCTOR_SECONDS:.0f} s"], "code": None}
        return {"lines": said.decode(errors="replace").splitlines()[:100], "code": process.returncode}
