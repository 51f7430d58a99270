"""Nodes with real network processes on loopback, without training: they start quickly, and have the
whole network side of a node.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psutil

from protocol import codec
from protocol.addressing import question_seed
from protocol.identity import Identity
from protocol.messages import PeerId, Round
from swarm_node.network.backend import Handler
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.process import control
from swarm_node.network.process.messages import Rules
from swarm_node.network.process.runner import ExchangeRunner, bootstrap_nodes
from swarm_node.network.process.service import free_port
from swarm_node.network.transport.libraries import make_backend
from swarm_node.network.transport.multiaddr import split_peer
from swarm_node.rollouts.groups import Group
from swarm_node.settings import NetworkConfig
from tests.groups import KIND, group
from tests.waiting import PATIENCE, until

SWARM = "test"
ROUND_SECONDS = 0.25


def config(peers: Sequence[str] = (), **options: Any) -> NetworkConfig:
    quick = {"host": "127.0.0.1", "mdns": False, "relay": False, "exchange_seconds": 2.0}
    return NetworkConfig.model_validate({**quick, "peers": tuple(peers), **options})


class Member:
    """A node that publishes two groups a round and remembers what it received."""

    def __init__(
        self,
        home: Path,
        network: NetworkConfig,
        identity: Identity | None = None,
        swarm: str = SWARM,
    ) -> None:
        self.identity = identity or Identity.create()
        self.home, self.swarm = home, swarm
        home.mkdir(parents=True, exist_ok=True)
        rules = Rules(
            swarm=swarm,
            environments={
                KIND["environment"]: (KIND["version"], {KIND["dataset"]: (KIND["config_id"],)})
            },
        )
        before = _children()
        self.began = time.monotonic()
        self.network = RemoteNetwork(self.identity, home, network, rules, 4, dict, today=time.time)
        self.network.start()
        until(lambda: _children() - before, what="the network process")
        self.round = 0
        self.received: list[Group] = []
        self.said: list[str] = []

    @property
    def id(self) -> PeerId:
        return self.identity.peer_id

    def step(self) -> None:
        number = Round(self.round)
        seed = {"seed": question_seed(self.swarm, self.id, number)}
        self.network.publish(
            [group(self.id, self.round, index, **seed) for index in range(2)], number
        )
        self.received += self.network.collect(number)
        self.said += [text for text, _ in self.network.lines()]
        self.round += 1

    def view(self) -> dict[str, Any]:
        """What the network process says of itself. It is asked again, as a busy process may answer
        too late.
        """
        found: dict[str, Any] = {}

        def said() -> bool:
            found.update((control.ask(self.home) or {}).get("network") or {})
            return "uptime" in found

        until(said, what="a word of the network process")
        return found

    def addresses(self) -> list[str]:
        """The TCP addresses of the node, once it listens."""
        found: list[str] = []
        until(lambda: found or found.extend(self.view()["addresses"]), what="listening")
        return [address for address in found if "/tcp/" in address]

    def process(self) -> psutil.Process:
        """The network process: the parent of the process that listens on this node's port."""
        port = int(self.addresses()[0].split("/")[4])
        for child in psutil.Process().children(recursive=True):
            if any(
                each.laddr.port == port
                for each in child.net_connections("tcp")
                if each.status == "LISTEN"
            ):
                parent = child.parent()
                assert parent is not None
                return parent
        raise AssertionError(f"nobody listens on {port}")

    def kill(self) -> None:
        """Kills all network processes of this node by SIGKILL: they say goodbye to no peer, and are
        not restarted.
        """
        process = self.process()
        for each in (process, *process.children()):
            each.kill()
        self.network.close()

    def close(self) -> None:
        self.network.close()


def _children() -> frozenset[int]:
    return frozenset(child.pid for child in psutil.Process().children())


@contextmanager
def closing(*members: Member) -> Iterator[None]:
    try:
        yield
    finally:
        with ThreadPoolExecutor(len(members)) as pool:  # each takes a second to say goodbye
            list(pool.map(Member.close, members))


def rounds(members: Sequence[Member], enough: Callable[[], object], what: str) -> None:
    """All members publish and collect, round after round, until `enough` holds."""

    def after_another() -> bool:
        if enough():
            return True
        for member in members:
            member.step()
        return False

    until(after_another, what=what, pause=ROUND_SECONDS)


def received_since(reader: Member, writer: PeerId, number: int) -> bool:
    """Whether the reader has received a group of the writer's round `number` or later."""
    return any(each.author == writer and each.round >= number for each in reader.received)


class Tampered(ExchangeRunner):
    """A peer that follows the protocol, except in its replies to some requests."""

    tamper: Callable[[str, Handler], Handler]

    def _handler(self, protocol: str) -> Handler:
        return self.tamper(protocol, super()._handler(protocol))


@contextmanager
def hostile(
    peers: Sequence[str], tamper: Callable[[str, Handler], Handler], swarm: str = SWARM
) -> Iterator[PeerId]:
    """A hostile peer in a thread, which announces a group of its own over and over."""
    identity = Identity.create()
    options = config(peers, port=free_port())
    loop = asyncio.new_event_loop()

    main: list[asyncio.Task[None] | None] = []

    async def live() -> None:
        main.append(asyncio.current_task())
        exchange = Exchange(identity, swarm, options, Random(), time.monotonic())
        entrance = bootstrap_nodes(
            [(split_peer(each)[1], each) for each in peers], {}, identity.peer_id
        )
        runner = Tampered(
            exchange, entrance, lambda _: None, lambda _: None, time.monotonic, Random()
        )
        runner.tamper = tamper
        running = asyncio.create_task(runner.run(make_backend(options, identity)))
        try:
            for number in range(10_000):
                seed = question_seed(swarm, identity.peer_id, Round(number))
                envelope = codec.seal(
                    group(identity.peer_id, number, 0, seed=seed), identity, swarm
                )
                runner.perform(exchange.publish([envelope], Round(number), 0, time.monotonic()))
                await asyncio.sleep(1.5)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner, suppress(asyncio.CancelledError):
            runner.run(live())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield identity.peer_id
    finally:
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in main if task])
        thread.join(PATIENCE)


@contextmanager
def black_hole() -> Iterator[str]:
    """The address of a listener whose queue is full: no attempt to connect is answered, as behind a
    firewall.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            knock = socket.socket()
            knock.setblocking(False)
            knock.connect_ex(("127.0.0.1", port))
            waiting.append(knock)
        yield f"/ip4/127.0.0.1/tcp/{port}/p2p/{Identity.create().peer_id}"
        for knock in waiting:
            knock.close()
