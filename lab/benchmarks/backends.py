"""The time of a call on each pair of backends, and the memory of each backend.

    python -m lab.benchmarks.backends --json

Every host is a process of its own on loopback, over TCP. A call sends 20 KB to the other side, which sends them back.
Calls follow one another. Memory is resident, of the Python process and of p2pd beside it, after the calls. `ratio` is
the median call of the slowest pair over that of the quickest.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from statistics import median, quantiles
from typing import Any

import psutil

from lab.benchmarks import command
from protocol.identity import Identity
from swarm_node.network.backend import Backend, Caller
from swarm_node.network.transport.backends import make_backend
from swarm_node.settings import NetworkConfig

BACKENDS = ("hivemind", "libp2p")
ECHO = "/swarm-node-benchmark/echo/1"
BYTES, CALLS, WARM_UP, LIMIT = 20_000, 200, 20, 64 * 1024


async def echo(caller: Caller, request: bytes) -> bytes:
    return request


async def start(backend: str, bootstrap: bool) -> tuple[Backend, float]:
    """A listening host, and the seconds that starting it took."""
    config = NetworkConfig.model_validate({"backend": backend, "host": "127.0.0.1", "mdns": False})
    began = time.perf_counter()
    host = make_backend(config, Identity.create(), bootstrap)
    await host.start({ECHO: echo}, {ECHO: LIMIT})
    return host, time.perf_counter() - began


def weight() -> dict[str, float]:
    """Megabytes resident: this process, and its children."""
    own = psutil.Process()
    children = sum(child.memory_info().rss for child in own.children())
    return {"python_mb": own.memory_info().rss / 1e6, "p2pd_mb": children / 1e6}


async def serve(backend: str, role: str) -> None:
    """A host that replies until its input ends. It prints its address, then its memory."""
    host, seconds = await start(backend, role == "bootstrap")
    addresses = [address for address in await host.addresses() if "/tcp/" in address]
    say({"addresses": addresses, "start_s": seconds})
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    say(weight())
    await host.close()


async def call(backend: str, address: str) -> None:
    """Calls the host at this address and prints how long that took."""
    host, _ = await start(backend, False)
    began = time.perf_counter()
    peer = await host.dial([address], 5.0)
    dialled = time.perf_counter() - began
    times = []
    for _ in range(WARM_UP + CALLS):
        began = time.perf_counter()
        await host.call(peer, ECHO, bytes(BYTES), LIMIT, 5.0)
        times.append(time.perf_counter() - began)
    steady = times[WARM_UP:]
    say({"dial_ms": dialled * 1e3, "p50_ms": median(steady) * 1e3, "p95_ms": quantiles(steady, n=20)[-1] * 1e3})
    await host.close()


def say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def child(*arguments: str) -> subprocess.Popen[str]:
    again = [sys.executable, "-m", "lab.benchmarks.backends", "--child", *arguments]
    return subprocess.Popen(again, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure(caller: str, callee: str, role: str = "node") -> dict[str, Any]:
    server = child("serve", callee, role)
    assert server.stdout is not None and server.stdin is not None
    found: dict[str, Any] = json.loads(server.stdout.readline())
    client = child("call", caller, found.pop("addresses")[0])
    found |= json.loads(client.communicate()[0])
    server.stdin.close()
    found |= json.loads(server.stdout.readline())
    server.wait()
    return found


def main() -> None:
    parser = command.parser("lab.benchmarks.backends", __doc__)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        role, *rest = options.child
        asyncio.run(serve(*rest) if role == "serve" else call(*rest))
        return
    pairs = {f"{caller} -> {callee}": measure(caller, callee) for caller in BACKENDS for callee in BACKENDS}
    pairs["hivemind -> hivemind, entry and relay node"] = measure("hivemind", "hivemind", "bootstrap")
    lines = []
    for pair, it in pairs.items():
        numbers = [f"{it[key]:.1f}" for key in ("dial_ms", "p50_ms", "p95_ms")]
        memory = [f"{it[key]:.0f}" if it[key] else "-" for key in ("python_mb", "p2pd_mb")]
        lines.append([pair, f"{it['start_s']:.2f}", *numbers, *memory])
    header = ["caller -> callee", "callee starts, s", "dial, ms", "20 KB both ways p50, ms", "p95, ms"]
    command.show([*header, "Python, MB", "p2pd, MB"], lines)
    calls = [it["p50_ms"] for it in pairs.values()]
    slowest, quickest = max(calls), min(calls)
    command.finish(
        options, {"ratio": slowest / quickest, "slowest_ms": slowest, "quickest_ms": quickest, "pairs": pairs}
    )


if __name__ == "__main__":
    main()
