"""What everybody may see of a swarm: counts and shares as this one node knows them, and never an
address or a name.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from swarm_node.page.page import Page
from swarm_node.page.sight import OTHERS as OTHERS
from swarm_node.page.sight import Sight

FILES = (
    "app.css",
    "public.js",
    "charts.js",
    "tools.js",
    "uPlot.iife.min.js",
    "uPlot.min.css",
    "icon.svg",
)
FREE = ("/", "/api/public", *(f"/static/{name}" for name in FILES))
EVERY = 10.0  # seconds between two points
POINTS = 2160  # six hours
PRESENT = 180.0  # seconds for which a peer counts as present after it was seen or announced itself
MOST_VERSIONS, MOST_TASKS = 8, 40


class PublicView:
    """The public view. It asks the node even while nobody looks, so that there is a history."""

    def __init__(self, page: Page, clock: Callable[[], float], sight: Sight) -> None:
        self._page, self._clock, self._sight = page, clock, sight
        self._points: deque[tuple[float, int, float | None]] = deque(maxlen=POINTS)
        self._next = clock()
        self._announcements: tuple[float, int] | None = None  # when, and how many so far
        self._number = 0
        page.hooks.append(self.look)

    def look(self) -> None:
        """Adds a point to the history, if it is time for one and the node has answered since the
        last.
        """
        now = self._clock()
        self._page.asking.want()
        if now < self._next or self._page.asking.number == self._number:
            return
        self._next, self._number = now + EVERY, self._page.asking.number
        network = self._network()
        so_far = int(network.get("counters", {}).get("announcements received", 0))
        rate = None
        if self._announcements and so_far >= self._announcements[1]:
            rate = (
                60.0 * (so_far - self._announcements[1]) / max(now - self._announcements[0], 1e-9)
            )
        self._announcements = (now, so_far)
        self._points.append((now, len(present(network)), rate))

    def view(self) -> dict[str, Any]:
        """The view as plain data. `estimated` lists the figures that one node can only estimate for
        a whole swarm.
        """
        now, network = self._clock(), self._network()
        connected, relayed = int(network.get("connected", 0)), int(network.get("relayed", 0))
        return {
            "running": bool(network.get("running")),
            "swarm": self._sight.swarm(str(network.get("swarm", ""))),
            "uptime": network.get("uptime"),
            "nodes": len(present(network)),
            "connected": connected,
            "direct": (connected - relayed) / connected if connected else None,
            "relayed": relayed / connected if connected else None,
            "announcements": self._points[-1][2] if self._points else None,
            "versions": versions(network),
            "tasks": self._tasks(),
            "ages": [round(at - now, 1) for at, _, _ in self._points],
            "history": {
                "nodes": [n for _, n, _ in self._points],
                "announcements": [r for _, _, r in self._points],
            },
            "estimated": ["nodes", "announcements", "versions", "tasks"],
        }

    def _network(self) -> Mapping[str, Any]:
        found = self._page.asking.answer.get("network", {})
        return found if isinstance(found, dict) else {}

    def _tasks(self) -> dict[str, float]:
        """Each task's share of the groups that this node sampled: a bootstrap node counts them,
        others keep samples.
        """
        sampled = self._network().get("sampled_tasks", {})
        found: Counter[str] = Counter()
        for task, count in sampled.items():
            found[self._sight.task(task)] += count
        found.update(self._sight.task(sample["task"]) for sample in self._page.samples.last())
        return {task: count / found.total() for task, count in found.most_common(MOST_TASKS)}


def present(network: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Peers that this node has seen, or that announced themselves, in the last `PRESENT`
    seconds.
    """
    return [
        peer
        for peer in network.get("peers", [])
        if any(
            peer.get(key) is not None and peer[key] < PRESENT for key in ("last_seen", "announced")
        )
    ]


def versions(network: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of peers by the protocol versions in their Hello; a peer whose note names no version
    speaks ours.
    """
    found: Counter[str] = Counter()
    for peer in present(network):
        said = re.match(r"speaks protocol version ([\d, ]{1,40}),", str(peer.get("note", "")))
        found[said.group(1) if said else str(network.get("protocol"))] += 1
    return dict(found.most_common(MOST_VERSIONS))
