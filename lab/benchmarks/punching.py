"""Hole punching between real hosts in network namespaces: success, time taken, and calls that fail meanwhile.

    python -m lab.benchmarks.punching        # as root, on Linux with iptables

Two hosts behind NATs of their own meet at a relay and call each other without a pause, both ways, for ten seconds.
Wires with latency stand in front of the NATs, as the kernel may have none (netem): a process delays what leaves or
enters. Kinds of NAT: `closed` drops what nobody asked for; `open` takes it as its own, and remembers it, as a machine
does that masquerades for containers; `symmetric` takes another port for every flow (on one side).
"""

import argparse
import array
import fcntl
import heapq
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass

from lab.benchmarks import command
from lab.benchmarks.internet.meetings import Meeting
from lab.benchmarks.internet.namespaces import Internet, Namespace, reason
from lab.benchmarks.internet.remote import Remote, RemoteFailed

SECONDS = 10.0
CALL_SECONDS = 10.0  # a call that takes longer is lost
ROWS = [(0, "closed"), (15, "closed"), (80, "closed"), (250, "closed"), (0, "open"), (15, "open"), (80, "open")]
ROWS += [(0, "symmetric"), (80, "symmetric")]  # ms from one NAT to the other, one way

_SIOCETHTOOL, _ETHTOOL_OFF = 0x8946, (0x17, 0x1F, 0x24, 0x19)  # checksums, TSO, GSO, scatter: see linux/ethtool.h
_PACKET_OUTGOING, _ETH_P_ALL = 4, 3


@dataclass(frozen=True)
class Found:
    """Of one meeting."""

    direct_after: float | None  # seconds from the dial to the direct connection; None: there is none
    calls: int
    lost: int
    slowest: float  # seconds of a call


class Delayed(Internet):
    def __init__(self, seconds: float, kind: str) -> None:
        """`seconds` from each NAT to the net, and as long back."""
        super().__init__()
        self._seconds = seconds
        self._kind = kind

    def behind_nat(self, name: str, symmetric: bool = False) -> Namespace:
        host = super().behind_nat(name, symmetric)
        router = next(each for each in self._names if each.endswith(f"-{name}r"))
        if self._kind == "open":
            _inside(router, "iptables", "-F", "INPUT")
        if self._seconds:
            near, far = f"{name}n", f"{name}f"
            _inside(self._bridge, "ip", "link", "add", "name", near, "type", "veth", "peer", "name", far)
            for end in (near, far):
                _inside(self._bridge, "ip", "link", "set", end, "up")
            _inside(self._bridge, "ip", "link", "set", host.port, "nomaster")
            _inside(self._bridge, "ip", "link", "set", far, "master", "br0")
            _inside(router, sys.executable, "-m", "lab.benchmarks.punching", "--plain", "eth0")
            _inside(self._bridge, sys.executable, "-m", "lab.benchmarks.punching", "--plain", near, far, host.port)
            wire = ["--wire", host.port, near, str(self._seconds)]
            again = [sys.executable, "-m", "lab.benchmarks.punching", *wire]
            subprocess.Popen(["ip", "netns", "exec", self._bridge, *again])  # ends with the namespace
        return host


def main() -> None:
    parser = command.parser("lab.benchmarks.punching", __doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--plain", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--wire", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.plain:
        return plain(arguments.plain)
    if arguments.wire:
        return wire(arguments.wire[0], arguments.wire[1], float(arguments.wire[2]))
    if missing := reason():
        sys.exit(missing)
    rows = []
    for milliseconds, kind in ROWS:
        meetings = [once(milliseconds / 2000, kind) for _ in range(arguments.runs)]
        rows.append((milliseconds, kind, meetings))
        print(", ".join(line(milliseconds, kind, meetings)), flush=True)
    header = ["one way, NAT", "direct", "after, s", "calls", "lost", "slowest call, s"]
    command.show(header, [line(*row) for row in rows])
    found = [{"ms": ms, "nat": kind, "meetings": [asdict(each) for each in meetings]} for ms, kind, meetings in rows]
    command.finish(arguments, {"rows": found, "seconds": SECONDS})
    return None


def line(milliseconds: int, kind: str, meetings: list[Found]) -> list[str]:
    direct = [each.direct_after for each in meetings if each.direct_after is not None]
    calls, lost = sum(each.calls for each in meetings), sum(each.lost for each in meetings)
    spread = f"{min(direct):.2f}-{max(direct):.2f}" if direct else "-"
    slowest = max(each.slowest for each in meetings)
    name, share = f"{milliseconds} ms, {kind}", f"{len(direct)} of {len(meetings)}"
    return [name, share, spread, f"{calls}", f"{lost}", f"{slowest:.2f}"]


def once(seconds: float, kind: str) -> Found:
    with Delayed(seconds, kind) as internet:
        meeting = Meeting(internet, symmetric=kind == "symmetric")
        began = time.monotonic()
        took: list[float] = []
        lost: list[str] = []
        after: list[float] = []

        def call(caller: Remote, callee: Remote) -> None:
            while (start := time.monotonic()) - began < SECONDS:
                try:
                    caller.echo(callee.peer_id, "x" * 1000, CALL_SECONDS)
                except RemoteFailed as error:
                    lost.append(str(error))
                took.append(time.monotonic() - start)
                if caller is meeting.b and not after and meeting.direct():
                    after.append(time.monotonic() - began)

        ends = ((meeting.a, meeting.b), (meeting.b, meeting.a))
        threads = [threading.Thread(target=call, args=each) for each in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return Found(after[0] if after else None, len(took), len(lost), max(took))


def plain(interfaces: list[str]) -> None:
    """Frames leave these as they are on a wire: whole, with checksums."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in interfaces:
            for what in _ETHTOOL_OFF:
                value = array.array("B", struct.pack("II", what, 0))
                request = struct.pack("16sP16x", name.encode(), value.buffer_info()[0])
                fcntl.ioctl(control, _SIOCETHTOOL, request)


def wire(one: str, other: str, seconds: float) -> None:
    """Carries frames between two interfaces, each after so many seconds, until it is killed."""
    ends = []
    for name in (one, other):
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        end.bind((name, _ETH_P_ALL))
        ends.append(end)
    held: list[tuple[float, int, socket.socket, bytes]] = []
    count = 0
    while True:
        patience = max(0.0, held[0][0] - time.monotonic()) if held else None
        for end in select.select(ends, [], [], patience)[0]:
            frame, source = end.recvfrom(65536)
            if source[2] != _PACKET_OUTGOING:
                count += 1
                heapq.heappush(held, (time.monotonic() + seconds, count, ends[end is ends[0]], frame))
        while held and held[0][0] <= time.monotonic():
            _, _, end, frame = heapq.heappop(held)
            end.send(frame)


def _inside(namespace: str, *command: str) -> None:
    subprocess.run(["ip", "netns", "exec", namespace, *command], check=True)


if __name__ == "__main__":
    main()
