"""What a real node sends to somebody whose addresses an attacker announces as a peer's: docs/results/reflection.md.

    python -m lab.studies.reflection_real --json        # as root, on Linux with ip and iptables

A bootstrap node, an attacker and a victim in network namespaces. The victim drops what comes to four UDP ports, and
counts it. Attacks:

    one      a single announcement that names the four ports; then the attacker is gone
    crowd    the same with 24 identities more, whom the attacker names when it is asked
    hidden   the attacker announces itself, tells the node's daemon 30 ports of the victim by libp2p's own protocol
             (identify), and is gone
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.benchmarks import command
from lab.benchmarks.internet.namespaces import Internet, Namespace, reason
from lab.benchmarks.waiting import until
from protocol import announcing, limits, wire
from protocol.identity import Identity
from protocol.messages import Announcement, Round
from swarm_node.network.backend import Caller
from swarm_node.network.transport.backends import make_backend
from swarm_node.settings import NetworkConfig

SWARM = "reflection"
VICTIM = "93.184.216.34"
TARGETS = tuple(f"/ip4/{VICTIM}/udp/{port}/quic-v1" for port in (4001, 4002, 4003, 4004))
HIDDEN = tuple(f"/ip4/{VICTIM}/udp/{5000 + number}/quic-v1" for number in range(30))
NOWHERE = "/ip4/93.184.217.1/tcp/31330"  # that the attacker of `hidden` announces: nobody answers there
SECONDS = {"one": 25.0, "crowd": 60.0, "hidden": 25.0}


def reflector(identity: Identity, addresses: Sequence[str] = TARGETS, swarm: str = SWARM) -> bytes:
    """A sealed announcement of a peer that says it is there."""
    announcement = Announcement(
        addresses=tuple(addresses), author=identity.peer_id, groups=(), held=(), round=Round(0), seq=1
    )
    return announcing.seal(announcement, identity, swarm)


class Victim:
    """Takes nothing and counts what comes."""

    def __init__(self, where: Namespace) -> None:
        self._where = where
        where.run("ip", "addr", "add", f"{VICTIM}/24", "dev", "eth0")
        where.run("iptables", "-A", "INPUT", "-d", VICTIM, "-j", "DROP")

    def received(self) -> tuple[int, int]:
        """Packets and bytes, IP headers and all."""
        words = ["ip", "netns", "exec", self._where.name, "iptables", "-nvxL", "INPUT"]
        line = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()[2].split()
        return int(line[0]), int(line[1])


def measure(attack: str) -> dict[str, Any]:
    """Packets and bytes that reach the victim by one attack on one node."""
    with Internet() as internet, tempfile.TemporaryDirectory() as home:
        node, hostile, victim = internet.public("n"), internet.public("h"), Victim(internet.public("v"))
        for host in (node, hostile):
            host.run("ip", "route", "add", "93.184.0.0/16", "dev", "eth0")
        words = ["-m", "swarm_node", "bootstrap", "--home", home, "--port", "31330", "--swarm", SWARM]
        process = node.popen([sys.executable, *words], stdout=subprocess.DEVNULL)
        try:
            until(lambda: _address(home), 30.0, "the node")
            words = ["-m", "lab.studies.reflection_real", "--attacker", attack, "--address", _address(home)]
            done = hostile.popen([sys.executable, *words], stdout=subprocess.PIPE).communicate()[0]
            packets, octets = victim.received()
        finally:
            process.terminate()
            process.wait()
    return {"attack": attack, "seconds": SECONDS[attack], "packets": packets, "bytes": octets, **json.loads(done)}


def _address(home: str) -> str:
    """The node's, for TCP; "" before it listens."""
    with suppress(OSError):
        lines = (Path(home) / "addresses").read_text().splitlines()
        return next((line for line in lines if "/ip4/45." in line and "/tcp/" in line), "")
    return ""


async def attack(kind: str, address: str) -> dict[str, int]:
    """Do it; how many announcements that took, and bytes."""
    end = time.monotonic() + SECONDS[kind]
    told: list[bytes] = []
    asked_for = asyncio.Event()

    async def answer(_: Caller, request: bytes) -> bytes:
        asked = wire.decode_exchange(request)
        fresh = [reflector(Identity.create()) for _ in range(getattr(asked, "limit", 0))]
        told.extend(fresh)
        asked_for.set()
        return wire.encode_items([wire.Item(0, each) for each in fresh])

    identity = Identity.create()
    announce = HIDDEN if kind == "hidden" else ()
    host = make_backend(NetworkConfig(host="0.0.0.0", mdns=False, relay=False, announce=announce), identity)
    await host.start({wire.EXCHANGE: answer}, {wire.EXCHANGE: wire.REQUEST_LIMITS[wire.EXCHANGE]})
    peer = await host.dial([address], 10.0)
    told.append(reflector(identity, [NOWHERE] if kind == "hidden" else TARGETS))
    request = wire.encode_exchange(wire.ExchangeRequest(wire.swarm_tag(SWARM), 1, {}, told[0]))
    await host.call(peer, wire.EXCHANGE, request, limits.MAX_EXCHANGE_REPLY_BYTES, 10.0)
    if kind == "crowd":
        await asked_for.wait()
        await asyncio.sleep(0.5)  # until the answer has arrived
    await host.close()
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    return {"announcements": len(told), "told_bytes": sum(map(len, told))}


def main() -> None:
    parser = command.parser("lab.studies.reflection_real", __doc__)
    parser.add_argument("--attacks", nargs="+", choices=SECONDS, default=list(SECONDS))
    parser.add_argument("--attacker", help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attacker:
        print(json.dumps(asyncio.run(attack(options.attacker, options.address))))
        return
    if missing := reason():
        sys.exit(missing)
    results = [measure(each) for each in options.attacks]
    lines = []
    for it in results:
        rates = f"{it['bytes'] / it['seconds']:.0f}", f"{it['bytes'] / it['told_bytes']:.1f}"
        lines.append([it["attack"], f"{it['announcements']}", f"{it['packets']}", f"{it['bytes']}", *rates])
    command.show(["attack", "announcements", "packets", "bytes", "bytes a second", "times what was told"], lines)
    command.finish(options, {"attacks": results})


if __name__ == "__main__":
    main()
