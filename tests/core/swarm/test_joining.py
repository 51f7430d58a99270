"""`--card` by file, address and code: what is refused, and how far a node may go."""

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from protocol import wire
from protocol.card import Refusal, Signed, digest, told
from protocol.identity import Identity
from swarm_node.commands.status import ask
from swarm_node.common.errors import UserError
from swarm_node.network.backend import Caller
from swarm_node.network.process.keeper import CARDS_FILE, keep_cards, load_cards
from swarm_node.network.process.service import free_port
from swarm_node.network.transport.libraries import make_backend
from swarm_node.settings import BootstrapConfig, NetworkConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.manifest import ManifestSource
from swarm_node.swarm.code import Invitation
from swarm_node.swarm.code import encode as coded
from swarm_node.swarm.joining import MAX_DOWNLOAD, follow_card
from tests.cards import CHAIN, DOOR, HOSTILE, KEYS, NETWORK, OLD, SWARM, TODAY, chain
from tests.commands import ended, killed_in_the_end, started
from tests.waiting import until

TASK, SECOND = "chain_sum/easy", Signed.model_validate_json(CHAIN[1]).card


class Tried:
    """One start in a home, and what it said."""

    def __init__(self, home: Path, *flags: str, kind: type = NodeConfig, keep: bool = True) -> None:
        self.lines: list[str] = []
        config = from_command_line(kind, ["--home", str(home), *flags], "swarm-node run")
        self.config = follow_card(config, self.lines.append, keep)


def refused(home: Path, *flags: str) -> str:
    with pytest.raises(UserError) as error:
        Tried(home, *flags)
    assert "\n" not in str(error.value) and len(str(error.value)) < 400
    return str(error.value)


def having(home: Path, cards: list[bytes], now: float = TODAY) -> Path:
    """A home that has these cards."""
    home.mkdir()
    keep_cards(home / CARDS_FILE, cards, now)
    assert load_cards(home / CARDS_FILE)[0] == tuple(cards)
    return home


def file_of(folder: Path, cards: list[bytes], name: str = "the.manifest") -> str:
    (folder / name).write_bytes(b"".join(card + b"\n" for card in cards))
    return str(folder / name)


@contextmanager
def served(*answers: tuple[int, str, bytes]) -> Iterator[str]:
    """An address: /0, /1, ... answer with a status, a Location and a body."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, location, body = answers[int(self.path[1:])]
            self.send_response(status)
            self.send_header("Location", location)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_the_first_card_is_trusted_aloud_and_kept_and_the_next_start_needs_no_flag(
    tmp_path: Path,
) -> None:
    home, file = tmp_path / "home", file_of(tmp_path, CHAIN[:2])
    looked = Tried(home, "--manifest", file, keep=False)
    # Hidden, as a code may let others in
    assert (str(ManifestSource("a.card")), str(ManifestSource("swarm:AZ"))) == ("a.card", "***")
    assert looked.config.swarm == SWARM and not home.exists()
    first = Tried(home, "--manifest", file, "--peers", f"{DOOR[:-52]}{KEYS[5].peer_id}")
    assert (
        f"trusts network {NETWORK} (2 of 3 signers)" in first.lines[0]
        and "manifest 2 of friends" in first.lines[1]
    )
    assert first.config.swarm == SWARM and first.config.environment.tasks == (TASK,)
    # Only what the user gives is the user's: addresses of the card pass the gate
    assert first.config.network.peers == (f"{DOOR[:-52]}{KEYS[5].peer_id}",)
    assert first.config.network.suggested == (DOOR,)
    again = Tried(home)
    assert (
        again.config.swarm == SWARM
        and again.config.network.suggested == (DOOR,)
        and again.config.network.peers == ()
        and len(again.lines) == 1
    )
    assert (
        "trusting"
        not in Tried(
            home, "--manifest", file_of(tmp_path, CHAIN), "--manifest-network", NETWORK
        ).lines[0]
    )
    assert (
        "manifest 5 of friends" in Tried(home).lines[0] and "0 days old, 8" in Tried(home).lines[0]
    )
    entrance = Tried(home, kind=BootstrapConfig).config
    assert (entrance.swarm, entrance.peers, entrance.suggested) == (SWARM, (), (DOOR,))
    assert (
        Tried(tmp_path / "other").config.swarm == "public" and not Tried(tmp_path / "other").lines
    )


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_does_not_hold_is_refused_by_file_and_address_and_the_node_goes_on(
    tmp_path: Path, kind: Refusal
) -> None:
    hostile, home = HOSTILE[kind](), having(tmp_path / "home", CHAIN[:2])
    with served((200, "", b"\n".join(hostile))) as address:
        for source in (file_of(tmp_path, hostile), f"{address}/0"):
            tried = Tried(home, "--manifest", source)
            assert told(kind) in tried.lines[0] and "continues with manifest 2" in tried.lines[0]
            assert tried.config.swarm == SWARM and load_cards(home / CARDS_FILE)[0] == tuple(
                CHAIN[:2]
            )
    # A node that knows no card accepts these two
    if kind not in (Refusal.ROLLED_BACK, Refusal.CONFLICT):
        new = tmp_path / "new"
        assert told(kind) in refused(
            new, "--manifest", file_of(tmp_path, hostile), "--manifest-network", NETWORK
        )
        assert not new.exists()


def test_an_address_is_bounded_and_leads_nowhere_weaker(tmp_path: Path) -> None:
    pin = ["--manifest-network", NETWORK]
    body, long = b"\n".join(CHAIN), b"x" * (2 * MAX_DOWNLOAD)
    there = [
        (200, "", body),
        (200, "", long),
        (302, "/0", b""),
        (302, "file:///etc/passwd", b""),
        (302, "/4", b""),
    ]
    with served(*there, (404, "", b"")) as address:
        # Plain HTTP needs a pin
        assert "https://" in refused(tmp_path / "a", "--manifest", f"{address}/0")
        assert Tried(tmp_path / "b", "--manifest", f"{address}/0", *pin).config.swarm == SWARM
        assert Tried(tmp_path / "c", "--manifest", f"{address}/2", *pin).config.swarm == SWARM
        for number, words in ((1, "too big"), (3, "302"), (4, "from one address"), (5, "404")):
            assert words in refused(tmp_path / "d", "--manifest", f"{address}/{number}", *pin)
    assert "ftp" in refused(tmp_path / "d", "--manifest", "ftp://127.0.0.1/x", *pin)
    assert "is not a manifest" in refused(tmp_path / "d", "--manifest", "absent.manifest")
    assert not (tmp_path / "d").exists()


def test_a_node_is_narrower_than_its_card_and_never_wider(tmp_path: Path) -> None:
    small = file_of(tmp_path, chain(1, episodes=4), "small.manifest")
    assert Tried(tmp_path / "a", "--manifest", small).config.generation.num_generations == 4
    fewer = Tried(
        tmp_path / "b",
        "--manifest",
        small,
        "--generation.num-generations",
        "2",
        "--environment.tasks",
        TASK,
    )
    assert (fewer.config.generation.num_generations, fewer.config.environment.tasks) == (2, (TASK,))
    assert "none of your tasks" in refused(
        tmp_path / "c", "--manifest", small, "--environment.tasks", "gcd/easy"
    )
    some = Tried(tmp_path / "c", "--manifest", small, "--environment.tasks", "gcd/easy", TASK)
    assert some.config.environment.tasks == (TASK,) and "does not have: gcd/easy" in some.lines[-1]
    assert Tried(tmp_path / "d", "--manifest", small, "--swarm", "mine").config.swarm.startswith(
        "friends."
    )


def test_a_home_belongs_to_one_network_and_a_broken_card_starts_nothing(
    tmp_path: Path, monkeypatch
) -> None:
    home = having(tmp_path / "home", CHAIN)
    assert "no manifest of network" in refused(home, "--manifest-network", "a" * 26)
    assert "no manifest of network" in refused(tmp_path / "new", "--manifest-network", NETWORK)
    (home / CARDS_FILE).write_bytes(b"{}")
    assert told(Refusal.MALFORMED) in refused(home) and "remove the file" in refused(home)
    # As in the home of another user; root may write anywhere
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert f"make it writable for user {os.getuid()}" in refused(home)


def test_a_card_that_ended_in_the_home_goes_on_and_says_so(tmp_path: Path) -> None:
    home = having(tmp_path / "home", chain(1, issued=OLD, expires=OLD + 9 * 86400), OLD)
    assert "ended 91 days ago" in Tried(home).lines[0]
    assert str(Refusal.EXPIRED) in refused(tmp_path / "new", "--manifest", str(home / CARDS_FILE))


@pytest.mark.slow
@pytest.mark.network
def test_no_node_of_a_code_passes_on_what_does_not_hold(tmp_path: Path) -> None:
    served, loop = [*CHAIN[:2]], asyncio.new_event_loop()

    async def answer(caller: Caller, request: bytes) -> bytes:
        return wire.encode_cards(served[wire.decode_card_request(request)[1] :])

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    threading.Thread(target=loop.run_forever, daemon=True).start()
    host = make_backend(
        NetworkConfig(host="127.0.0.1", port=free_port(), mdns=False), Identity.create()
    )
    run(host.start({wire.CARD: answer}, wire.REQUEST_LIMITS))
    code = coded(Invitation((run(host.addresses())[0],), SWARM, (), 0, NETWORK, 2, digest(SECOND)))
    here = ("--network.host", "127.0.0.1", "--manifest", code)
    assert len(code) < 250 and "manifest 2 of friends" in Tried(tmp_path / "new", *here).lines[0]
    others = having(tmp_path / "others", chain(1, name="others"))
    line = Tried(others, *here).lines[0]
    assert "of another network" in line and line.endswith("continues with manifest 1")
    for kind, hostile in HOSTILE.items():
        served[:] = hostile()
        # The code names a newer card
        why = kind if kind != Refusal.ROLLED_BACK else Refusal.CONFLICT
        assert told(why) in refused(tmp_path / "absent", *here)
    run(host.close())
    assert (
        "none of its nodes answers" in refused(tmp_path / "absent", *here)
        and not (tmp_path / "absent").exists()
    )
    assert "no manifest: use swarm-node join" in refused(
        tmp_path, "--manifest", coded(Invitation((DOOR,), "friends"))
    )


@pytest.mark.slow
@pytest.mark.network
def test_members_let_others_in_by_codes_when_the_founders_are_gone(tmp_path: Path) -> None:
    quick = ("--host", "127.0.0.1", "--no-mdns", "--port", "0")
    a, b, c = (tmp_path / name for name in "abc")
    with ExitStack() as founders, ExitStack() as members:
        for home, card, stack in ((a, file_of(tmp_path, CHAIN[:3]), founders), (b, "", members)):
            card = card or ended("invite", "--home", a).stdout.strip()
            stack.enter_context(
                killed_in_the_end(started("bootstrap", "--home", home, "--manifest", card, *quick))
            )
            until(lambda home=home: "invitation" in ask(home), what="a node that can invite")
        founders.close()
        code = ended("invite", "--home", b).stdout.strip()
        plain = {
            **os.environ,
            "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
            "SWARM_NODE_MODEL__NAME": "rare",
        }
        joined = ended("join", code, "--home", c, "--max-rounds", "1", env=plain)
        assert joined.returncode == 0, joined.stderr
        assert "joining network" in joined.stdout and "manifest 3 of friends" in joined.stdout
        assert "manifest 3 of friends" in ended("status", "--home", b).stdout
    assert load_cards(b / CARDS_FILE)[0] == load_cards(c / CARDS_FILE)[0] == tuple(CHAIN[:3])
