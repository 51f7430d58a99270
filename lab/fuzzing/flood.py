"""A real node under a flood: what one peer with a thousand requests a second costs it, and an honest peer beside.

    python -m lab.fuzzing.flood --json

The node is a network process with its daemon on loopback. An honest peer asks for announcements about once a second
from its own process; the flooder, another process, opens as many streams as it can up to the given rate. CPU is that of
the node's network process and daemon, also for each stream of the flood, which does not depend on how many of them a
busy machine lets through; latency is that of the honest peer's answered calls, median.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from lab.benchmarks import command, network
from protocol import limits, wire
from protocol.identity import Identity
from swarm_node.network.backend import CallFailed
from swarm_node.network.transport.backends import make_backend
from swarm_node.settings import NetworkConfig

PAUSE = 1.1  # seconds between two calls of the honest peer: within what everybody may ask
FLIGHT = 1024  # calls of the flooder under way: it does not wait for answers


def main() -> None:
    parser = command.parser("lab.fuzzing.flood", __doc__)
    parser.add_argument("--rate", type=int, default=1000, help="requests a second of the flooder")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--role", choices=["honest", "flooder"], help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        print(json.dumps(asyncio.run(ask(options.role, options.address, options.rate, options.seconds))))
        return
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-flood-")))
        config = NetworkConfig(host="127.0.0.1", mdns=False)
        network.run_round(network.join(stack, work, 1, config), 0, 1.0)  # so that there is something to tell
        address = network.address_of(work / "0")
        quiet = measured(address, options.seconds, None)
        flooded = measured(address, options.seconds, options.rate)
    sides = {"quiet": quiet, "flooded": flooded}
    lines = [[name, f"{100 * it['cpu']:.1f}", f"{1000 * it['latency']:.1f}"] for name, it in sides.items()]
    command.show(["", "CPU, % of a core", "honest call, ms"], lines)
    print(f"honest peer {quiet}\nbeside the flood {flooded}")
    rate = flooded["flood"]["rate"]
    each = {name: 1e6 * (share - quiet["parts"][name]) / rate for name, share in flooded["parts"].items()}
    print("us of CPU for a stream of the flood: " + ", ".join(f"{name} {value:.0f}" for name, value in each.items()))
    command.finish(options, {"ratio": flooded["latency"] / quiet["latency"], "us_per_stream": each, **sides})


def measured(address: str, seconds: float, rate: int | None) -> dict[str, Any]:
    """CPU share of the node, and what the peers saw."""
    node = psutil.Process().children(recursive=True)
    flooder = launch("flooder", address, seconds + 2.0, rate) if rate else None
    if flooder:
        time.sleep(1.5)  # until it is connected and busy
    before, began = cpu(node), time.monotonic()
    honest = json.loads(launch("honest", address, seconds, 0).communicate()[0])
    wall = time.monotonic() - began
    share = {name: (spent - before[name]) / wall for name, spent in cpu(node).items()}
    flood = json.loads(flooder.communicate()[0]) if flooder else {}
    return {"cpu": sum(share.values()), "parts": share, "mb": megabytes(node), **honest, "flood": flood}


def launch(role: str, address: str, seconds: float, rate: int | None) -> "subprocess.Popen[bytes]":
    again = [sys.executable, "-m", "lab.fuzzing.flood", "--role", role, "--address", address]
    return subprocess.Popen([*again, "--seconds", str(seconds), "--rate", str(rate)], stdout=subprocess.PIPE)


def cpu(processes: list[psutil.Process]) -> dict[str, float]:
    """Seconds, by name of the program."""
    spent: Counter[str] = Counter()
    for process in processes:
        times = process.cpu_times()
        spent[process.name()] += times.user + times.system
    return dict(spent)


def megabytes(processes: list[psutil.Process]) -> dict[str, float]:
    return {process.name(): process.memory_info().rss / 1e6 for process in processes}


async def ask(role: str, address: str, rate: int, seconds: float) -> dict[str, Any]:
    """Calls one after another for the honest peer, at a rate for the flooder; what became of them."""
    host = make_backend(NetworkConfig(host="127.0.0.1", mdns=False), Identity.create(), False)
    await host.start({}, {})
    peer = await host.dial([address], 10.0)
    request = wire.encode_exchange(wire.ExchangeRequest(wire.swarm_tag("benchmark"), 8, {}, b""))
    answered, taken = 0, list[float]()
    failed: Counter[str] = Counter()
    space = asyncio.Semaphore(1 if role == "honest" else FLIGHT)

    async def call() -> None:
        nonlocal answered
        async with space:
            began = time.perf_counter()
            try:
                await host.call(peer, wire.EXCHANGE, request, limits.MAX_EXCHANGE_REPLY_BYTES, 10.0)
                answered += 1
                taken.append(time.perf_counter() - began)
            except CallFailed as error:
                failed[str(error.failure)] += 1

    end = time.monotonic() + seconds
    calls: set[asyncio.Task[None]] = set()
    while time.monotonic() < end:
        if role == "honest":
            await call()
            await asyncio.sleep(PAUSE)
        else:
            calls = {task for task in calls if not task.done()}
            calls |= {asyncio.create_task(call()) for _ in range(rate // 100)}
            await asyncio.sleep(0.01)
    await asyncio.gather(*calls)
    await host.close()
    rate_seen = (answered + sum(failed.values())) / seconds
    return {"answered": answered, "failed": failed, "rate": rate_seen, "latency": median(taken) if taken else 0.0}


if __name__ == "__main__":
    main()
