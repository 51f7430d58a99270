"""Being reached through relays: the client of circuit relay v2, https://github.com/libp2p/specs
(relay/circuit-v2.md).

A reservation at a relay is one exchange on a stream. p2pd could make them by itself, but only after
3 minutes unless it knows four relays; and both backends need them. A relay forgets a reservation
when the connection ends, so the connections are watched.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from protocol.messages import PeerId
from swarm_node.common.backoff import backoff
from swarm_node.network import varint
from swarm_node.network.backend import Backend, CallFailed, Stream
from swarm_node.network.transport.multiaddr import parts, split_peer
from swarm_node.network.varint import fields, read_prefixed

HOP = "/libp2p/circuit/relay/0.2.0/hop"
MAX_RELAYS = 3  # reservations held at once
WATCH_SECONDS = 3.0  # between two looks at the connections
# Relays grant an hour; the end that they state by their own clock is not read
RENEW_SECONDS = 20 * 60.0
FIRST_RETRY = 30.0  # seconds after a relay refused or was not there; doubles with each failure
LAST_RETRY = 480.0  # seconds
RESERVE_SECONDS = 5.0
UNLIMITED = 1 << 62  # bytes
# A relay that passes on less is of no use; every p2pd relays 128 KiB, whatever its flags
MIN_BYTES = 1024 * 1024

_RESERVE = b"\x08\x00"  # HopMessage{type: RESERVE}
_TYPE, _LIMIT, _STATUS_CODE, _LIMIT_DATA = 1, 4, 5, 2  # field numbers of HopMessage, and of Limit
_STATUS = 2  # HopMessage.type of an answer
_OK = 100
_MAX_ANSWER = 4096  # bytes

OpenStream = Callable[[PeerId, str], Awaitable[Stream]]  # CallFailed where there is none

log = logging.getLogger(__name__)


async def reserve(stream: Stream) -> int:
    """Asks for a reservation on a fresh hop stream: bytes passed on per connection and direction;
    0: it was refused.

    EOFError or OSError where the stream ends, or the answer is too long.
    """
    await stream.write(varint.prefixed(_RESERVE))
    answer = fields(await read_prefixed(stream.read, _MAX_ANSWER))
    if answer.get(_TYPE) != _STATUS or answer.get(_STATUS_CODE) != _OK:
        return 0
    limit = answer.get(_LIMIT, b"")
    data = fields(limit).get(_LIMIT_DATA, 0) if isinstance(limit, bytes) else 0
    return data if isinstance(data, int) and data else UNLIMITED


class Relays:
    """Keeps reservations at some of these relays, for as long as `run` runs."""

    def __init__(self, backend: Backend, open_stream: OpenStream, relays: Sequence[str]) -> None:
        """`relays`: full multiaddrs; several of one relay are tried together."""
        self._backend = backend
        self._open_stream = open_stream
        self._known: dict[PeerId, list[str]] = {}
        for address in relays:
            if may_relay(address):
                self._known.setdefault(split_peer(address)[1], []).append(address)
        self._renew: dict[PeerId, float] = {}  # reservations held, and when to renew them
        # Not held: when to try again, and failures in a row
        self._retry: dict[PeerId, tuple[float, int]] = {}

    def addresses(self) -> list[str]:
        """Addresses by which relays lead to this node now, one for each relay, without its own id.

        TCP where there is a choice: both backends dial it, and over TCP the end of a relay is seen
        at once.
        """
        best = (
            next((it for it in self._known[relay] if "/tcp/" in it), self._known[relay][0])
            for relay in self._renew
        )
        return [f"{address}/p2p-circuit" for address in best]

    def holds(self, relay: PeerId) -> bool:
        """Whether there is a reservation at this relay, which ends with the connection."""
        return relay in self._renew

    def start_over(self) -> None:
        """All connections are closed, and with them all reservations; relays that failed before
        may be asked again.
        """
        self._renew.clear()
        self._retry.clear()

    async def run(self) -> None:
        """Keeps reservations at relays while they are needed, until it is cancelled."""
        while self._known:
            with suppress(CallFailed):  # the daemon is gone: `wait_closed` says so
                connected = {connection.peer for connection in await self._backend.connections()}
                await self._tend(connected, asyncio.get_running_loop().time())
            await asyncio.sleep(WATCH_SECONDS)

    async def _tend(self, connected: set[PeerId], now: float) -> None:
        for relay in [relay for relay in self._renew if relay not in connected]:
            del self._renew[relay]
        due = [relay for relay, when in self._renew.items() if when <= now]
        new = [
            relay
            for relay in self._known
            if relay not in self._renew and self._retry.get(relay, (0.0,))[0] <= now
        ]
        await asyncio.gather(
            *(self._reserve(relay, now) for relay in [*due, *new[: MAX_RELAYS - len(self._renew)]])
        )

    async def _reserve(self, relay: PeerId, now: float) -> None:
        agreed = False
        with suppress(CallFailed, TimeoutError, EOFError, OSError):
            await self._backend.dial(self._known[relay], RESERVE_SECONDS)
            async with asyncio.timeout(RESERVE_SECONDS):
                stream = await self._open_stream(relay, HOP)
                try:
                    agreed = await reserve(stream) >= MIN_BYTES
                finally:
                    await stream.close()
        if agreed:
            self._renew[relay] = now + RENEW_SECONDS
            self._retry.pop(relay, None)
        else:
            self._renew.pop(relay, None)
            failures = self._retry[relay][1] if relay in self._retry else 0
            self._retry[relay] = (now + backoff(failures, FIRST_RETRY, LAST_RETRY), failures + 1)
            log.info("no reservation at relay %s", relay)


def may_relay(address: str) -> bool:
    """Whether the node at this address could relay for others: not one that only this machine or
    network sees.
    """
    (name, value), *_ = parts(address)
    return name not in ("ip4", "ip6") or ipaddress.ip_address(value).is_global
