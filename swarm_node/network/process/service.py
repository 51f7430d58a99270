"""A node's part in the network: an exchange, one backend after another, and what the node remembers
of both.

The network process of a trainer runs this service, and so does a bootstrap node.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import PeerId
from protocol.versions import CURRENT
from swarm_node.common.awake import elapsed
from swarm_node.common.backoff import backoff
from swarm_node.common.children import STARTS, ChildKilled
from swarm_node.common.errors import UserError
from swarm_node.network.access import Access
from swarm_node.network.actions import Cards, Deliver, ForTrainer, Remembered
from swarm_node.network.exchange.exchange import Exchange
from swarm_node.network.parties import is_public, network_of
from swarm_node.network.process.confined import raise_limit
from swarm_node.network.process.messages import MAX_PEERS, Alive, Memory
from swarm_node.network.process.runner import ELSEWHERE, ExchangeRunner, bootstrap_nodes
from swarm_node.network.transport.backends import (
    MAX_CONNECTIONS,
    check_free,
    listen_addresses,
    make_gate,
    never_dialled,
)
from swarm_node.network.transport.libraries import make_backend
from swarm_node.network.transport.multiaddr import split_peer, usefulness
from swarm_node.network.transport.standing import standing
from swarm_node.settings import NetworkConfig

TRAFFIC = (" bytes in", " bytes out")  # endings of the names of traffic counters
# Seconds until a backend that died is replaced; doubles with each that dies early
FIRST_RESTART = 0.2
LAST_RESTART = 30.0  # seconds
ENTRANCE_SECONDS = 10.0  # after which the user is told that no bootstrap node answers
LOCKED_OUT = (
    "check that a node is running there, that the address is right, and that no firewall blocks "
    "it. Still trying"
)
SOUND_SECONDS = 60.0  # a backend that lived this long had no fault of its own

WATCH_SECONDS = 1.0
# Looks at which another node was ahead again; a node that lost its memory sees that once or twice
OFTEN_OVERTAKEN = 3
TWINS = "if that is another node, give it a --home of its own: two nodes must not share an identity"
REACHABILITY = {  # how others can reach a node, in the order of `usefulness`, and what that means
    "public": "others can reach this node directly",
    "relayed": (
        "this node is behind NAT: others reach it through a relay, and then directly if the NATs "
        "allow it"
    ),
    "local network": (
        "computers on your local network can connect to this node; others cannot connect to it, "
        "but it can connect to them"
    ),
    "loopback only": (
        "only this machine reaches this node; others need a network, and --network.host 0.0.0.0"
    ),
    "outbound only": (
        "nobody can call this node, it calls others; it trains and shares all the same"
    ),
}

Say = Callable[[str, bool], None]  # a line for the user, and whether it is a warning


def reachability(addresses: Sequence[str]) -> str:
    """A key of `REACHABILITY`, by the best of these full multiaddrs; but any address through a
    relay means "relayed". Only a node that found no public address of its own at the start has
    relays. Later, p2pd may list the address of the NAT as the node's own, when four other nodes
    have seen it there.
    """
    if any("/p2p-circuit" in address for address in addresses):
        return "relayed"
    return list(REACHABILITY)[min(map(usefulness, addresses), default=-1)]


def reachability_line(addresses: Sequence[str]) -> str:
    """The line that tells the user how others reach this node."""
    kind = reachability(addresses)
    return f"network: {kind}: {REACHABILITY[kind]}"


class NetworkService:
    """The network of one node: a backend, the exchange, and what the node remembers of both."""

    def __init__(
        self,
        identity: Identity,
        swarm: str,
        config: NetworkConfig,
        memory: Memory,
        deliver: Callable[[ForTrainer], None],
        say: Say,
        changed: Callable[[Sequence[str]], None] = lambda addresses: None,
        rules: AdmissionRules | None = None,
        sockets: Path | None = None,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        """`memory`: from an earlier run. `deliver` takes what is for the trainer, `changed` this
        node's new addresses. `rules`: what the trainer admits; None for a node that only serves.
        `sockets`: folder for the sockets of a daemon, by default the temporary folder. The
        addresses of `config` are checked already.
        """
        self._identity, self._swarm, self._config, self._sockets = identity, swarm, config, sockets
        self._max_connections = max_connections
        self._say, self._changed, self._serve_only = say, changed, rules is None
        self._port = memory.port
        self._reach = ""
        self._restarts = 0
        self._moved = asyncio.Event()  # this machine is in another network
        self._began = self.clock()
        random = Random()
        now = self.clock()
        self._gate = make_gate(config, memory.private)
        self._gate.welcomes = lambda peer: self.exchange.members.lets(peer, self.clock())
        self.exchange = Exchange(
            identity, swarm, config, random, now, self._serve_only, rules=rules
        )
        if memory.exchange != Remembered():
            self.exchange.restore(memory.exchange, now)
        self.exchange.remember(memory.peers)
        named = (*config.peers, *config.suggested)
        given = [(split_peer(address)[1], address) for address in named]
        self._bootstrap_nodes = bootstrap_nodes(given, memory.peers, identity.peer_id)
        if any(peer == identity.peer_id for peer, _ in given):
            say(
                f"one of --peers is this node itself, {identity.peer_id}, and is ignored; {TWINS}",
                True,
            )
        for address, reason in never_dialled(config, config.suggested).items():
            say(
                f"network: {address} of the manifest or code is not dialled, {reason}; if you know "
                "it, give it with --peers",
                False,
            )
        if lonely := one_network([address for _, address in given]):
            say(
                (
                    f"network: all your --peers are in the network {lonely}, so whoever "
                    "controls it "
                    "can decide which nodes you meet: add a peer from another network if you know "
                    "one"
                ),
                True,
            )
        self.runner = ExchangeRunner(
            self.exchange,
            self._bootstrap_nodes,
            deliver,
            self._addresses_changed,
            self.clock,
            random,
            partial(standing, config.host),
            self._gate.woke,
        )

    @staticmethod
    def clock() -> float:
        """Seconds of the only clock that the network reads, also as that of its loop: nothing in it
        looks at the time of day. It goes on while this machine sleeps, as what others say grows old
        meanwhile.
        """
        return elapsed()

    async def live(self) -> None:
        """Runs one backend after another, for ever. UserError only where a node that only serves
        cannot listen; ChildKilled where its daemon is killed at each of several starts.
        """
        watching = self._watch_for_twins(), self._watch_the_entrance()
        besides = [asyncio.create_task(each) for each in watching]
        if few := raise_limit():
            self._say(f"network: {few}", True)
        if self._config.mdns:
            besides.append(asyncio.create_task(self._look_around()))
        early = 0  # backends in a row that soon died
        try:
            while True:
                began = self.clock()
                # A daemon that a signal ended while it started is no mistake of the user
                reason = await self._one_backend(bear_kills=early + 1 < STARTS)
                if reason == ELSEWHERE:
                    self._say(f"network: {reason}; the network starts again there", False)
                    self._moved.set()
                    continue
                self._restarts += 1
                early = 0 if self.clock() - began > SOUND_SECONDS else early + 1
                delay = backoff(early, FIRST_RESTART, LAST_RESTART)
                self._say(
                    f"network: {reason}; starting it again in {delay:.1f} s (network.log in the "
                    "home says more)",
                    True,
                )
                await asyncio.sleep(delay)
        finally:
            for task in besides:
                task.cancel()
            await asyncio.gather(*besides, return_exceptions=True)

    async def _one_backend(self, bear_kills: bool) -> str:
        """Runs one backend until it ends; returns why it did."""
        try:
            self._port = self._choose_port()
            known = tuple(address for node in self._bootstrap_nodes for address in node.addresses)
            named = self._config.peers or self._config.suggested
            suggested = self._config.suggested if named else known
            config = self._config.model_copy(update={"port": self._port, "suggested": suggested})
            limits = self._sockets, self._max_connections
            backend = make_backend(config, self._identity, self._serve_only, self._gate, *limits)
            return await self.runner.run(backend)
        except UserError as error:
            if self._serve_only and not (bear_kills and isinstance(error, ChildKilled)):
                raise
            return str(error)

    def _choose_port(self) -> int:
        """The configured port, the last one, or a free one. UserError for a node that only serves,
        if it is taken.
        """
        if wanted := self._config.port or self._port:
            try:
                check_free(listen_addresses(self._config.host, wanted))
                return wanted
            except UserError as error:
                if self._serve_only:
                    raise
                if self._config.port:
                    self._say(
                        f"network: {error}; a free port is used meanwhile",
                        True,
                    )
        return free_port()

    def memory(self) -> Memory:
        """What the next process, or the next run, should know."""
        steady = self.exchange.steady()
        views = sorted(self.exchange.peers(self.clock()), key=lambda view: view.peer not in steady)
        known = {view.peer: tuple(view.addresses) for view in views if view.addresses}
        for node in self._bootstrap_nodes:
            # Addresses that the user gave may be mistyped: kept only once reached
            if not node.given:
                known.setdefault(node.peer, node.addresses)
        best = dict(list(known.items())[:MAX_PEERS])
        private = tuple(map(str, self._gate.where.private))
        return Memory(port=self._port, exchange=self.exchange.state(), peers=best, private=private)

    def spent(self) -> int:
        """Bytes exchanged with others so far, both ways."""
        return sum(
            count for name, count in self.exchange.counters().items() if name.endswith(TRAFFIC)
        )

    def alive(self) -> Alive:
        """What the trainer is told every few seconds."""
        connected, strangers = len(self.runner.connections), self.exchange.strangers()
        return Alive(
            connected, len(self.exchange.view), strangers, self.runner.addresses, self.spent()
        )

    def allow(self, access: Access) -> None:
        """From now on, deals only with peers that the user's lists let pass."""
        self.exchange.allow(access)
        self._gate.where.access = access

    def go_by(self, cards: Cards) -> None:
        """From now on, the exchange goes by this chain of cards, which has been checked."""
        self.runner.perform(
            self.exchange.go_by(cards.cards, self.clock(), cards.proof, cards.today)
        )

    def look(self, groups: int) -> None:
        """Fetch so many groups, where some are announced: `deliver` gets them. For a node that
        trains nothing.
        """
        self.runner.perform(self.exchange.look(groups, self.clock()))

    def view(self) -> dict[str, Any]:
        """How the network looks from here, as plain data for `status`, `peers` and `doctor`."""
        now = self.clock()
        return {
            "swarm": self._swarm,
            "protocol": CURRENT.number,
            "backend": self._config.backend,
            "uptime": round(now - self._began, 1),
            "restarts": self._restarts,
            "reachability": reachability(self.runner.addresses)
            if self.runner.addresses
            else "starting",
            "addresses": self.runner.addresses,
            "connected": len(self.runner.connections),
            "relayed": list(self.runner.connections.values()).count("relayed"),
            "connections": dict(self.runner.connections),
            "bootstrap_nodes": [asdict(node) for node in self._bootstrap_nodes],
            "peers": [asdict(view) for view in self.exchange.peers(now)],
            "downloads": self.exchange.downloads(),
            "counters": {**self.runner.counters(), **self._gate.counters},
        }

    def _addresses_changed(self, addresses: Sequence[str]) -> None:
        self._changed(addresses)
        kind = reachability(addresses)
        if kind != self._reach:
            self._reach = kind
            self._say(reachability_line(addresses), False)

    async def _watch_for_twins(self) -> None:
        """Warns once, if another node with this identity takes this node's numbers again and
        again.
        """
        times, seen = 0, 0
        while times < OFTEN_OVERTAKEN:
            await asyncio.sleep(WATCH_SECONDS)
            before, seen = seen, self.exchange.overtaken()
            times += seen > before
        self._say(
            f"network: another node uses the identity {self._identity.peer_id}; {TWINS}", True
        )

    async def _watch_the_entrance(self) -> None:
        """Warns once, if none of --peers answers: a mistyped address must not look like a swarm of
        one.
        """
        await asyncio.sleep(ENTRANCE_SECONDS)
        given = [node for node in self._bootstrap_nodes if node.given]
        if given and not self.runner.connections:
            tried = "; ".join(
                f"{node.addresses[0]}: {node.state or 'no answer yet'}" for node in given[:2]
            )
            self._say(f"network: none of --peers answers ({tried}); {LOCKED_OUT}", True)

    async def _look_around(self) -> None:
        """Finds nodes on the local network, by mDNS."""
        from swarm_node.network.transport.lan import Lan  # loads zeroconf, 7 MB

        def found(peer: PeerId, addresses: Sequence[str]) -> None:
            self.exchange.learned(peer, addresses)
            self.runner.perform(self.exchange.tick(self.clock()))

        def say(text: str) -> None:
            self._say(f"network: {text}", True)

        while True:  # its sockets belong to addresses: in another network it begins anew
            self._moved.clear()
            lan = Lan(self._identity.peer_id, self._swarm, self._config.host, found)
            looking = asyncio.create_task(lan.run(lambda: self.runner.addresses, say))
            try:
                await self._moved.wait()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)


def one_network(addresses: Sequence[str]) -> str:
    """The public /24 (IPv4) or /48 (IPv6) that holds all of several bootstrap nodes; "" where no
    single one does.
    """
    found = {network_of(address) for address in addresses}
    return found.pop() if len(addresses) > 1 and len(found) == 1 and is_public(min(found)) else ""


def free_port() -> int:
    """A port that is free for TCP now. Later starts use it again, so that peers that know it find
    the node.
    """
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


EVERY = 15.0  # seconds between two groups
MOST = 240  # groups that count: those of an hour
# That must name a task before its name is shown: one liar alone could show strangers any name
AUTHORS = 2
OTHERS = "named by one node alone"


class SampledTasks:
    """Counts the last groups by task. Their completions are not kept, and nobody can fetch them
    here.
    """

    def __init__(self, renew: Callable[[Sequence[bytes]], None] = lambda cards: None) -> None:
        self._renew = renew  # takes newer cards, which `deliver` passes on too
        self._last: deque[tuple[PeerId, str]] = deque(maxlen=MOST)

    def take(self, action: ForTrainer) -> None:
        """Takes what the exchange delivers to the trainer (see `deliver` of `NetworkService`):
        counts a genuine group, whose author signed its task, and passes manifests on.
        """
        if isinstance(action, Deliver):
            group = action.group
            task = f"{group.question.dataset}/{group.question.config_id}"
            self._last.append((group.author, task))
        elif isinstance(action, Cards):
            self._renew(action.cards)

    def counts(self) -> dict[str, int]:
        """Groups by task, the most frequent first."""
        authors: dict[str, set[PeerId]] = {}
        for author, task in self._last:
            authors.setdefault(task, set()).add(author)
        found = Counter(task if len(authors[task]) >= AUTHORS else OTHERS for _, task in self._last)
        return dict(found.most_common())

    async def keep_looking(self, service: NetworkService) -> None:
        """Fetches one group every `EVERY` seconds, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            service.look(1)
