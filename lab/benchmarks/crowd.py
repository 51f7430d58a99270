"""What a bootstrap node costs as connections come: memory, and CPU time of each dial and of holding them.

    python -m lab.benchmarks.crowd --connections 500 --json

One `swarm-node bootstrap` with default options on loopback. Peers are real py-libp2p hosts with an identity each, fifty
to a process; they connect and stay. Memory is resident, of the process and its daemon; CPU time is theirs, too.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil

from lab.benchmarks import command
from lab.benchmarks.waiting import until
from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.network.backend import Backend, CallFailed
from swarm_node.network.process import control
from swarm_node.network.transport.backends import make_backend
from swarm_node.settings import NetworkConfig

CROWD = 50  # hosts of a process
HOLD_SECONDS = 20.0


async def crowd(address: str, count: int) -> None:
    """Connects so many hosts, says how many it became, and holds them until its input ends."""
    config = NetworkConfig.model_validate({"backend": "libp2p", "host": "127.0.0.1", "mdns": False})
    hosts: list[Backend] = []
    for _ in range(count):
        host = make_backend(config, Identity.create(), False)
        try:
            await host.start({}, {})
            await host.dial([address], 20.0)
            hosts.append(host)
        except (CallFailed, UserError) as error:
            print(f"refused: {error}", file=sys.stderr)
    print(json.dumps({"connected": len(hosts)}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


def family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def weight(pid: int) -> dict[str, float]:
    """Of the bootstrap node and its daemon, by now."""
    whole = family(pid)
    times = [each.cpu_times() for each in whole]
    memory = sum(each.memory_info().rss for each in whole)
    return {"memory_mb": memory / 1e6, "cpu_seconds": sum(each.user + each.system for each in times)}


def measured(connections: int, hold: float) -> dict[str, Any]:
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swarm-crowd-")))
        words = ["bootstrap", "--home", str(home), "--host", "127.0.0.1", "--port", "0"]
        node = subprocess.Popen([sys.executable, "-m", "swarm_node.commands.cli", *words], stdout=subprocess.DEVNULL)
        stack.callback(node.wait)
        stack.callback(node.terminate)
        addresses = until(lambda: view_addresses(home), 60, "the bootstrap node")
        address = next(each for each in addresses if "/tcp/" in each)
        stages = [{"connected": 0, **weight(node.pid)}]
        done = 0
        while done < connections:
            count = min(CROWD, connections - done)
            again = [sys.executable, "-m", "lab.benchmarks.crowd", "--child", address, str(count)]
            child = subprocess.Popen(again, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            stack.callback(child.wait)
            stack.callback(child.kill)
            assert child.stdout is not None
            done += json.loads(child.stdout.readline())["connected"]
            stages.append({"connected": done, **weight(node.pid)})
            print(f"{stages[-1]}", file=sys.stderr, flush=True)
            if stages[-1]["connected"] == stages[-2]["connected"]:
                break  # it takes no more
        time.sleep(hold)
        held = weight(node.pid)["cpu_seconds"] - stages[-1]["cpu_seconds"]
        known = ((control.ask(home) or {}).get("network") or {}).get("connected", 0)
        last = stages[-1]
    per = max(1, int(last["connected"]))
    return {
        "stages": stages,
        "connected": last["connected"],
        "still_connected": known,  # as the bootstrap node says at the end
        "kilobytes_per_connection": 1000 * (last["memory_mb"] - stages[0]["memory_mb"]) / per,
        "cpu_ms_per_dial": 1000 * (last["cpu_seconds"] - stages[0]["cpu_seconds"]) / per,
        "cores_while_held": held / hold,
    }


def view_addresses(home: Path) -> list[str]:
    view = (control.ask(home) or {}).get("network") or {}
    return list(view.get("addresses") or [])


def main() -> None:
    parser = command.parser("lab.benchmarks.crowd", __doc__)
    command.add_quick(parser)
    parser.add_argument("--connections", type=int, default=500)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(crowd(options.child[0], int(options.child[1])))
        return
    found = measured(20 if options.quick else options.connections, 2.0 if options.quick else HOLD_SECONDS)
    lines = [
        [str(stage["connected"]), f"{stage['memory_mb']:.0f}", f"{stage['cpu_seconds']:.1f}"]
        for stage in found["stages"]
    ]
    command.show(["peers connected", "memory MB", "CPU s so far"], lines)
    cost = f"{found['kilobytes_per_connection']:.0f} KB and {found['cpu_ms_per_dial']:.0f} ms of CPU a connection"
    print(f"{cost}, {found['still_connected']} still open")
    command.finish(options, found)


if __name__ == "__main__":
    main()
