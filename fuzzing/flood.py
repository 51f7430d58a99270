"""A real node under a flood: what one peer with a thousand requests a second costs it, and an honest peer beside.

    python -m fuzzing.flood --json

The node is a network process with its daemon on loopback. An honest peer asks for announcements about once a second
from its own process; the flooder, another process, opens as many streams as it can up to the given rate. CPU is that of
the node's network process and daemon; latency is that of the honest peer's answered calls, median.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import psutil

from benchmarks import network
from protocol import limits, wire
from protocol.identity import Identity
from swarm_node.network.backend import CallFailed
from swarm_node.network.transport.backends import make_backend
from swarm_node.settings import NetworkConfig

PAUSE = 1.1  # seconds between two calls of the honest peer: within what everybody may ask
FLIGHT = 1024  # calls of the flooder under way: it does not wait for answers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzzing.flood", description=__doc__)
    parser.add_argument("--rate", type=int, default=1000, help="requests a second of the flooder")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
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
    for name, side in (("quiet", quiet), ("flooded", flooded)):
        print(f"{name}: CPU {100 * side['cpu']:.1f} % of a core, honest call {1000 * side['latency']:.1f} ms, {side}")
    ratio = flooded["latency"] / quiet["latency"]
    print(f"\nhonest latency {ratio:.2f} times")
    if options.json:
        print(json.dumps({"benchmark": "flood", "ratio": ratio, "quiet": quiet, "flooded": flooded}))


def measured(address: str, seconds: float, rate: int | None) -> dict[str, Any]:
    """CPU share of the node, and what the peers saw."""
    node = psutil.Process().children(recursive=True)
    flooder = launch("flooder", address, seconds + 2.0, rate) if rate else None
    if flooder:
        time.sleep(1.5)  # until it is connected and busy
    before, began = cpu(node), time.monotonic()
    honest = json.loads(launch("honest", address, seconds, 0).communicate()[0])
    share = (cpu(node) - before) / (time.monotonic() - began)
    flood = json.loads(flooder.communicate()[0]) if flooder else {}
    return {"cpu": share, **honest, **({"flood": flood} if flood else {})}


def launch(role: str, address: str, seconds: float, rate: int | None) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "fuzzing.flood", "--role", role, "--address", address]
    return subprocess.Popen([*command, "--seconds", str(seconds), "--rate", str(rate)], stdout=subprocess.PIPE)


def cpu(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for times in (process.cpu_times() for process in processes))


async def ask(role: str, address: str, rate: int, seconds: float) -> dict[str, Any]:
    """Calls one after another for the honest peer, at a rate for the flooder; what became of them."""
    host = make_backend(NetworkConfig(host="127.0.0.1", mdns=False), Identity.create(), False)
    await host.start({}, {})
    peer = await host.dial([address], 10.0)
    request = wire.encode_exchange(wire.ExchangeRequest(wire.swarm_tag("benchmark"), 8, {}, b""))
    answered, taken, failed = 0, [], {}
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
                failed[str(error.failure)] = failed.get(str(error.failure), 0) + 1

    end, calls = time.monotonic() + seconds, set()
    while time.monotonic() < end:
        if role == "honest":
            await call()
            await asyncio.sleep(PAUSE)
        else:
            calls = {task for task in calls if not task.done()} | {
                asyncio.create_task(call()) for _ in range(rate // 100)
            }
            await asyncio.sleep(0.01)
    await asyncio.gather(*calls)
    await host.close()
    rate_seen = (answered + sum(failed.values())) / seconds
    return {"answered": answered, "failed": failed, "rate": rate_seen, "latency": median(taken) if taken else 0.0}


if __name__ == "__main__":
    main()
