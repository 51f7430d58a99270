"""Traffic of real nodes on loopback: does it stay flat in the number of nodes? Beside it genrl's all-gather.

    python -m lab.benchmarks.network --json                                   # needs root, for a network namespace
    python -m lab.benchmarks.network --json --genrl-python GENRL/bin/python   # with genrl, for --genrl-nodes

Every node is a network process with its daemon, as `swarm-node run` starts them; a stand-in for the trainer
publishes 9 groups of 10 KB a round and collects 4 external groups. Bytes are those of the loopback interface of a
network namespace of its own, TCP/IP headers included; a node's traffic is what it sends and what it receives.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from lab.benchmarks import command, genrl_side
from lab.benchmarks.waiting import until
from protocol.addressing import question_seed
from protocol.identity import Identity
from protocol.messages import Completion, Question, RolloutGroup, Round
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process import control
from swarm_node.network.process.messages import Rules
from swarm_node.settings import NetworkConfig

GROUPS, GROUP_BYTES, WANTED = 9, 10_000, 4
COMPLETIONS = 8
ROUND_SECONDS = 4.0
WARM_UP = 12  # rounds until nodes are connected with most of the peers they will call: a handshake is 6 KB
INSIDE = "SWARM_NODE_BENCHMARK_INSIDE"
START_SECONDS = 120.0


def main() -> None:
    arguments = parsed()
    if INSIDE not in os.environ:
        sys.exit(in_namespace())
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    ours = [our_swarm(nodes, arguments.rounds, arguments.backend) for nodes in arguments.nodes]
    theirs = [
        genrl_swarm(arguments.genrl_python, nodes, arguments.genrl_rounds)
        for nodes in (arguments.genrl_nodes if arguments.genrl_python else ())
    ]
    show(ours, theirs)
    sizes = [side["kilobytes"] for side in ours]
    ratios = {
        theirs_["nodes"]: theirs_["kilobytes"] / ours_["kilobytes"]
        for theirs_ in theirs
        for ours_ in ours
        if theirs_["nodes"] == ours_["nodes"] and theirs_["kilobytes"]
    }
    result = {
        "ratio": max(ratios.values(), default=None),
        "ratios": ratios,
        "spread": max(sizes) / min(sizes) - 1,  # between the swarm sizes
        "ours": ours,
        "theirs": theirs,
        "settings": {"groups": GROUPS, "group_bytes": GROUP_BYTES, "wanted": WANTED, "round_seconds": ROUND_SECONDS},
    }
    command.finish(arguments, result)


def parsed() -> argparse.Namespace:
    parser = command.parser("lab.benchmarks.network", __doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--rounds", type=int, default=8, help="measured rounds")
    parser.add_argument("--backend", choices=["hivemind", "libp2p"], default="hivemind")
    genrl_side.add_python(parser)
    parser.add_argument("--genrl-nodes", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--genrl-rounds", type=int, default=3)
    return parser.parse_args()


def in_namespace() -> int:
    """Run this command again in a network namespace, so that the counters of loopback count only our bytes."""
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    again = [*unshare, sys.executable, "-m", "lab.benchmarks.network", *sys.argv[1:]]
    return subprocess.run(again, env={**os.environ, INSIDE: "1"}).returncode


def loopback_bytes() -> int:
    """Bytes sent over loopback in this namespace, which equal the bytes received."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[8])


Member = tuple[Identity, RemoteNetwork]


def join(stack: ExitStack, work: Path, nodes: int, config: NetworkConfig) -> list[Member]:
    """So many nodes with homes in `work`; all but the first are given its address."""
    members: list[Member] = []
    for index in range(nodes):
        identity, home = Identity.create(), work / str(index)
        home.mkdir()
        rules = Rules(swarm="benchmark", environments={"benchmark": ("1", {"noise": ("plain",)})})
        network = RemoteNetwork(identity, home, config, rules, WANTED, dict)
        network.start()
        stack.callback(network.close)
        members.append((identity, network))
        if not config.peers:
            config = config.model_copy(update={"peers": (address_of(home),)})
    return members


def our_swarm(nodes: int, rounds: int, backend: str) -> dict[str, Any]:
    config = NetworkConfig.model_validate(
        {"backend": backend, "host": "127.0.0.1", "mdns": False, "exchange_seconds": ROUND_SECONDS}
    )
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="swarm-bench-")))
        members = join(stack, work, nodes, config)
        for number in range(WARM_UP):
            run_round(members, number, ROUND_SECONDS)
        bytes_before, cpu_before = loopback_bytes(), cpu_seconds()
        began = time.monotonic()
        numbers = range(WARM_UP, WARM_UP + rounds)
        received = [count for number in numbers for count in run_round(members, number, ROUND_SECONDS)]
        seconds = time.monotonic() - began
        total = loopback_bytes() - bytes_before
        side = {
            "nodes": nodes,
            "kilobytes": 2 * total / nodes / rounds / 1000,
            "received": sum(received) / len(received),
            "cpu_ms": 1000 * (cpu_seconds() - cpu_before) / nodes / rounds,
            "memory_mb": memory_mb() / nodes,
            "seconds": seconds / rounds,
        }
    print(
        f"{nodes} nodes: {side['kilobytes']:.0f} KB per node and round, {side['received']:.1f} groups received",
        flush=True,
    )
    return side


def run_round(members: Sequence[Member], number: int, seconds: float) -> list[int]:
    """Everybody publishes at a moment of its own in the round, and collects at its next one."""
    received = []
    for identity, network in members:
        received.append(len(network.collect(Round(number))))
        network.publish([group(identity, number, index) for index in range(GROUPS)], Round(number))
        time.sleep(seconds / len(members))
    return received


def group(identity: Identity, number: int, index: int) -> RolloutGroup:
    """10 KB of incompressible text, in 8 completions."""
    text = os.urandom(GROUP_BYTES // COMPLETIONS // 2).hex()
    seed = question_seed(identity.peer_id, Round(number))
    question = Question(
        environment="benchmark", version="1", dataset="noise", config_id="plain", seed=seed, index=index
    )
    completions = tuple(Completion(text=f"{k}{text}", ended=True) for k in range(COMPLETIONS))
    return RolloutGroup(author=identity.peer_id, round=Round(number), question=question, completions=completions)


def address_of(home: Path) -> str:
    """Of the node of this home, as its status says."""

    def addresses() -> list[str]:
        view = (control.ask(home) or {}).get("network") or {}
        return list(view.get("addresses") or [])

    return until(addresses, START_SECONDS, "the start of a node")[0]


def cpu_seconds() -> float:
    """Of the network processes and their daemons; this process, which stands for the trainers, is left out."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        times = process.cpu_times()
        total += times.user + times.system
    return total


def memory_mb() -> float:
    return float(sum(process.memory_info().rss for process in psutil.Process().children(recursive=True))) / 1e6


def genrl_swarm(python: str, nodes: int, rounds: int) -> dict[str, Any]:
    """The first round is a warm-up. A node that receives less than all others has failed at its task, and is counted
    so."""
    work = Path(tempfile.mkdtemp(prefix="genrl-bench-"))
    script = Path(__file__).with_name("genrl_gather.py")
    processes = []

    def left(sign: str) -> None:
        """Returns when every node has left this file."""
        until(lambda: len(list(work.glob(f"{sign}.*"))) == nodes, START_SECONDS, f"{sign} of all nodes")

    try:
        for rank in range(nodes):
            order = {
                "rank": rank,
                "nodes": nodes,
                "rounds": rounds + 1,
                "bytes": GROUPS * GROUP_BYTES,
                "work": str(work),
            }
            with (work / f"log{rank}").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        [python, str(script), json.dumps(order)], stdout=log, stderr=log, start_new_session=True
                    )
                )
        marks = []
        for number in range(rounds + 1):
            left(f"round{number}")
            marks.append(loopback_bytes())
        left("done")
        marks.append(loopback_bytes())
        reports = [
            json.loads(path.read_text()) for n in range(1, rounds + 1) for path in work.glob(f"report{n}.*.json")
        ]
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(work, ignore_errors=True)
    side = {
        "nodes": nodes,
        "kilobytes": 2 * (marks[-1] - marks[1]) / nodes / rounds / 1000,
        "received": median(report["received"] for report in reports),
        "seconds": median(report["seconds"] for report in reports),
    }
    print(f"genrl, {nodes} nodes: {side['kilobytes']:.0f} KB per node and round", flush=True)
    return side


def show(ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]]) -> None:
    lines = []
    for side in ours:
        costs = [f"{side['cpu_ms']:.0f}", f"{side['memory_mb']:.0f}"]
        lines.append(["ours", f"{side['nodes']}", f"{side['kilobytes']:.0f}", f"{side['received']:.1f} groups", *costs])
    for side in theirs:
        received = f"{side['received']:.0f} nodes"
        lines.append(["genrl 0.3.0", f"{side['nodes']}", f"{side['kilobytes']:.0f}", received, "-", "-"])
    header = ["", "nodes", "KB per node and round, sent and received", "received per round", "network CPU ms", "MB"]
    command.show(header, lines)


if __name__ == "__main__":
    main()
