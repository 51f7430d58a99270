"""One place decides what a viewer without the token sees: no name that is somebody's secret leaves
by any route of a page.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, time
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from protocol.card import Members
from swarm_node.network.process.keeper import CARDS_FILE, keep_cards
from swarm_node.page import app, start
from swarm_node.page.guard import SHOWED_TOKEN, Guard
from swarm_node.page.metrics import exposition
from swarm_node.page.page import Page
from swarm_node.page.public import FREE, PublicView
from swarm_node.page.sight import EVERYTHING, OTHERS, PRIVATE, PrivateSwarm, Sight
from tests.cards import KEYS, chain
from tests.core.page.conftest import read_all
from tests.runs import home_with, line, round_done, sampled
from tests.waiting import until

TOKEN = "token"
NODE, DOOR = (key.peer_id for key in KEYS[:2])
SWARM = "acme.abcdefgh"
SECRETS = {  # a text that only a viewer with the token may see, and where it comes from
    "acme_merger/q3": "a task of the user's own",
    NODE: "this node",
    DOOR: "a bootstrap node",
    "AcmeMergerError": "a mistake of the user's environment",
    "12 and 18?": "a prompt of a sample",
    "192.0.2.1": "an address",
    "peers.example": "a host name",
}
NETWORK = {
    "running": True, "swarm": SWARM, "protocol": 2, "backend": "hivemind", "connected": 2,
    "relayed": 1, "reachability": "public", "restarts": 0, "dropped": 0, "uptime": 9.0,
    "counters": {"exchange bytes in": 10, "announcements received": 3},
    "addresses": ["/ip4/192.0.2.1/tcp/31330"],
    "peers": [
        {"peer": DOOR, "state": "ok", "last_seen": 1.0, "addresses": ["/dns4/peers.example"]},
    ],
    "bootstrap_nodes": [
        {"peer": DOOR, "given": True, "state": "connected"},
        {"peer": NODE, "given": True, "state": "no answer: 192.0.2.1"},
    ],
    "sampled_tasks": {"acme_merger/q3": 3, "gcd/easy": 1},
}  # fmt: skip
STATUS: dict[str, Any] = {
    "healthy": True, "problems": [], "role": "node", "peer_id": NODE, "state": "healthy",
    "training": {"round": 1, "rejected": {"environment raised AcmeMergerError": 2}},
    "network": NETWORK, "used": {},
}  # fmt: skip
RAISED = {"environment raised AcmeMergerError": 1, "scorer raised": 1}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = home_with(tmp_path / "home", 1)
    tasks = {"gcd/easy": 0.25, "acme_merger/q3": 0.5, "acme_merger/q4": 1.0}
    with (found / "events.jsonl").open("a") as file:
        file.write(line(round_done(1, reward_by_task=tasks, skipped=RAISED, peer_id=NODE)))
    samples = [sampled(task) for task in ("acme_merger/q3", "gcd/easy")]
    (found / "rollouts.jsonl").write_text("".join(map(line, samples)))
    return found


def page_of(home: Path) -> Page:
    page = Page(home, lambda _: STATUS, monotonic)
    read_all(page.node)
    page.samples.read()
    page.loading = False
    page.asking.answer, page.asking.number = STATUS, 1
    return page


def sight_of(home: Path, *chosen: str) -> Sight:
    return Sight(start.shipped_tasks(), chosen, PrivateSwarm(home))


def private(home: Path) -> Path:
    """Makes the swarm of the home a private one."""
    members = Members(admit=(KEYS[0].peer_id,), chain=2, revoked=())
    keep_cards(home / CARDS_FILE, chain(1, members=members), time())
    return home


def get(asked: ASGIApp, path: str, headers: dict[str, str]) -> httpx.Response:
    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(asked)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(answer())


def answers(home: Path, path: str, token: bool, *free: str) -> httpx.Response:
    """What the whole page answers, guard and routes, with or without the token."""
    page, sight = page_of(home), sight_of(home)
    public = PublicView(page, monotonic, sight)
    public.look()
    routes = app.routes(page, public, home, sight)
    guard = Guard(routes, TOKEN, "c", free=[*FREE, *free])
    return get(guard, path, {"authorization": f"Bearer {TOKEN}"} if token else {})


def paths(home: Path) -> Iterator[str]:
    """Every route of a page, but the stream, which does not end."""
    page = page_of(home)
    public = PublicView(page, monotonic, sight_of(home))
    for route in app.routes(page, public, home).routes:
        path = getattr(route, "path", "")
        if path != "/api/stream":
            yield path


def test_no_route_tells_a_viewer_without_the_token_a_secret_even_if_all_were_free(
    home: Path,
) -> None:
    every = list(paths(home))
    assert {"/metrics", "/api/state", "/api/samples", "/api/public", "/", "/node"} <= {*every}
    for path in every:
        reply = answers(home, path, False, *every)
        told = [secret for secret in SECRETS if secret in reply.text]
        assert not told, f"{path} tells {told}"
    for path in ("/api/state", "/api/samples", "/api/stream"):
        assert (answers(home, path, False, *every, path)).status_code == 401


def test_the_token_shows_all_of_it(home: Path) -> None:
    metrics = (answers(home, "/metrics", True, "/metrics")).text
    for secret in ("acme_merger/q3", NODE, DOOR, "AcmeMergerError"):
        assert secret in metrics, SECRETS[secret]
    assert f'bootstrap_reachable{{peer="{DOOR}"}} 1.0' in metrics
    assert "12 and 18?" in (answers(home, "/api/samples", True)).text


def test_open_metrics_keep_every_series_under_names_that_everybody_may_know(
    home: Path,
) -> None:
    text = (answers(home, "/metrics", False, "/metrics")).text
    assert 'task_reward{task="gcd/easy"} 0.25' in text
    assert f'task_reward{{task="{OTHERS}"}} 0.75' in text  # the mean of both
    assert 'bootstrap_reachable{peer="1"} 1.0' in text
    assert 'bootstrap_reachable{peer="2"} 0.0' in text
    assert 'skipped_groups_total{reason="environment raised"} 1.0' in text
    assert f'swarm="{SWARM}"' in text and 'reachability="public"' in text
    whole = exposition(page_of(home), STATUS, EVERYTHING).decode()
    named = {each.partition("{")[0].partition(" ")[0] for each in whole.splitlines()}
    shown = {each.partition("{")[0].partition(" ")[0] for each in text.splitlines()}
    assert named == shown


def test_tasks_that_the_user_made_public_are_named_in_metrics_too(home: Path) -> None:
    text = exposition(page_of(home), STATUS, sight_of(home, "acme_merger/q3")).decode()
    assert 'task_reward{task="acme_merger/q3"} 0.5' in text and "acme_merger/q4" not in text


def test_a_private_swarm_has_neither_name_nor_tasks_for_everybody(home: Path) -> None:
    private(home)
    view = (answers(home, "/api/public", False)).json()
    assert (view["swarm"], view["tasks"], view["nodes"]) == (PRIVATE, {OTHERS: 1.0}, 1)
    metrics = (answers(home, "/metrics", False, "/metrics")).text
    assert "gcd/easy" not in metrics and SWARM not in metrics and f'swarm="{PRIVATE}"' in metrics
    chosen = exposition(page_of(home), STATUS, sight_of(home, "gcd/easy")).decode()
    assert 'task_reward{task="gcd/easy"}' in chosen
    assert SWARM in exposition(page_of(home), STATUS, EVERYTHING).decode()


def test_a_card_that_comes_later_or_cannot_be_read_makes_the_swarm_private(home: Path) -> None:
    is_private = PrivateSwarm(home)
    assert not is_private()
    keep_cards(home / CARDS_FILE, chain(1), time())
    assert not is_private()
    (home / CARDS_FILE).write_bytes(b"{}")
    assert is_private()
    (home / CARDS_FILE).unlink()
    assert not is_private()
    private(home)
    assert is_private()


def test_routes_without_a_guard_show_nobody_anything(home: Path) -> None:
    routes = app.routes(page_of(home), None, home)
    said = get(routes, "/metrics", {"authorization": f"Bearer {TOKEN}"}).text
    assert "gcd/easy" not in said and not [secret for secret in SECRETS if secret in said]
    assert get(routes, "/api/state", {SHOWED_TOKEN: "True"}).status_code == 401


@pytest.mark.slow
def test_a_page_that_is_public_and_has_open_metrics_names_nobody_over_http(
    home: Path, serve
) -> None:
    page = serve(home, "--public", "--open-metrics")
    until(lambda: page.get("/metrics", token=False).status_code == 200)
    everything = page.get("/metrics", token=False).text + page.get("/api/public", token=False).text
    assert not [secret for secret in SECRETS if secret in everything]
    assert OTHERS in everything and "acme_merger/q3" in page.get("/metrics").text
    assert json.loads(page.get("/api/state").text)["last"]["peer_id"] == NODE
