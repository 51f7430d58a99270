"""A hundred real network processes for an hour, a tenth of them hostile: does every honest node go on receiving?

    python -m lab.studies.hundred --json        # as root, for a network namespace; docs/results/hundred.md
    python -m lab.studies.hundred --quick       # eight processes for two minutes

Each node is a network process with its daemon, as `swarm-node run` starts them, on an address in a /24 of its own
(127.x.y.1); a stand-in for the trainer publishes 9 groups of 10 KB a round and collects 4 external groups. Nodes come
and go by a recorded trace (--trace, see `lab.studies.churn`); without it all stay. Half of those that go are killed. A
tenth of the processes are hostile (`lab.studies.attackers`). A bootstrap node is killed every ten minutes, and in the
middle of the run the two halves of the addresses cannot reach each other for a twelfth of it.

A group is fresh if its author published it in this round or one of the three before. Asked is, of each honest node and
each minute in which it was there from the minute before on, whether a fresh group came. With --quick a minute is 20 s.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import fmean, linear_regression
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import psutil

from lab.benchmarks import command, network
from lab.benchmarks.waiting import until
from lab.studies import guests
from lab.studies.attackers import Attackers, Victim, kinds_of
from lab.studies.churn import Change, recorded
from protocol.identity import Identity
from protocol.messages import Round
from swarm_node.network.client import RemoteNetwork
from swarm_node.network.process.messages import Rules
from swarm_node.settings import NetworkConfig

SWARM = "benchmark"
INSIDE = "STUDIES_HUNDRED_INSIDE"
VICTIM = "127.200.0.1"
HALVES = (16, 144)  # second number of the addresses of the two sides of the partition
SIDES = ("127.0.0.0/9", "127.128.0.0/9")
NEEDED = ("unshare", "ip", "iptables")
FRESH_ROUNDS = 3
MINUTE = 60.0
PARTS = ("network process", "p2pd")
SPARE_BOOTSTRAP = 2  # that are never lost
History = dict[int, list[tuple[float, float]]]  # of a process: seconds and MB


class Node:
    """An honest node, there or not."""

    def __init__(self, number: int, work: Path, config: NetworkConfig, window: float) -> None:
        """`window`: seconds of what is called a minute."""
        self.number, self._window = number, window
        self._home = work / str(number)
        self._home.mkdir()
        self._identity = Identity.create()
        self._config = config.model_copy(update={"host": address(number)})
        self._network: RemoteNetwork | None = None
        self._processes: frozenset[int] = frozenset()
        self.since = 0.0  # seconds of the run
        self.fresh: Counter[int] = Counter()  # groups by minute of the run
        self.minutes: set[int] = set()  # in which it was there, and in the one before
        self._round = -1

    @property
    def there(self) -> bool:
        return self._network is not None

    @property
    def pids(self) -> frozenset[int]:
        """Of its network process."""
        return self._processes

    def come(self, now: float) -> None:
        rules = Rules(swarm=SWARM, environments={"benchmark": ("1", {"noise": ("plain",)})})
        before = children()
        self._network = RemoteNetwork(self._identity, self._home, self._config, rules, network.WANTED, dict)
        self._network.start()
        until(lambda: children() - before, network.START_SECONDS, "a network process")
        self._processes, self.since = children() - before, now

    def go(self, killed: bool) -> None:
        """With a goodbye, or as in a power cut."""
        if self._network is None:
            return
        if killed:
            for pid in self._processes:
                with suppress(psutil.Error):
                    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
                    for each in family:
                        each.kill()
        self._network.close()
        self._network = None

    def round(self, number: int, now: float) -> None:
        """Publish, and collect what has come."""
        if self._network is None:
            return
        minute = int(now // self._window)
        if self.since <= (minute - 1) * self._window:
            self.minutes.add(minute)
        number = self._round = max(number, self._round + 1)
        for each in self._network.collect(Round(number)):
            self.fresh[minute] += number - each.group.round <= FRESH_ROUNDS
        own = [network.group(SWARM, self._identity, number, index) for index in range(network.GROUPS)]
        self._network.publish(own, Round(number))


def children() -> frozenset[int]:
    """Network processes of this one. Others that it starts have other names."""
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "swarm_node.network.process.daemon" in child.cmdline():
                found.add(child.pid)
    return frozenset(found)


def address(number: int) -> str:
    """In a /24 of its own, and on a side of the partition by turns."""
    return f"127.{HALVES[number % 2] + number // 2 // 250}.{number // 2 % 250 + 1}.1"


def cpu_seconds() -> float:
    """Of all that this process started, as far as it can be known: daemons of nodes that were killed are missing."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return network.cpu_seconds() + ended.ru_utime + ended.ru_stime


def main() -> None:
    options = parsed()
    if INSIDE not in os.environ:
        in_namespace()
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    result = run(options)
    show(result)
    command.finish(options, result)


def parsed() -> argparse.Namespace:
    parser = command.parser("lab.studies.hundred", __doc__)
    parser.add_argument("--nodes", type=int, default=100, help="of which a tenth, and at least one, is hostile")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--round-seconds", type=float, default=20.0)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="a recorded trace: second,node,there")
    parser.add_argument("--lost-every", type=float, default=10.0, help="minutes between two lost bootstrap nodes")
    parser.add_argument("--hostile-cpu", type=float, default=0.05, help="share of a core for each hostile process")
    command.add_quick(parser)
    options = parser.parse_args()
    if options.quick:
        options.nodes, options.minutes, options.round_seconds = 8, 2.0, 5.0
        options.lost_every = 0.75
    if options.nodes < 4 or options.minutes < 2:
        parser.error("at least 4 --nodes and 2 --minutes")
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        parser.error(f"install {', '.join(missing)}: the partition needs it")
    return options


def in_namespace() -> NoReturn:
    """Become this command in a network namespace: the partition is made of rules for packets. There is no process
    between a Ctrl-C and the one that has to end all others."""
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    again = [*unshare, sys.executable, "-m", "lab.studies.hundred", *sys.argv[1:]]
    os.execvpe(again[0], again, {**os.environ, INSIDE: "1"})


class Partition:
    """Between the halves of the addresses, while it lasts."""

    def __init__(self, begin: float, end: float) -> None:
        self.begin, self.end = begin, end
        self.there = False

    def look(self, now: float) -> None:
        """Begin or end it when it is time."""
        if self.there == (self.begin <= now < self.end):
            return
        self.there = not self.there
        for source, target in (SIDES, SIDES[::-1]):
            rule = ["INPUT", "-s", source, "-d", target, "-j", "DROP"]
            subprocess.run(["iptables", "-A" if self.there else "-D", *rule], check=True)


class Bootstrap:
    """Bootstrap nodes, of which one after another is killed."""

    def __init__(self, stack: ExitStack, work: Path, count: int, every: float) -> None:
        """`every`: seconds between two losses."""
        self._running: list[subprocess.Popen[bytes]] = []
        self.addresses: list[str] = []
        self._every, self.lost = every, 0
        for number in range(count + SPARE_BOOTSTRAP):
            home = work / f"bootstrap{number}"
            where = ("--home", home, "--host", address(400 + number), "--port", "0", "--swarm", SWARM)
            line = ["-m", "swarm_node.commands.cli", "bootstrap", *where]
            self._running.append(stack.enter_context(guests.running(line, home)))
            self.addresses.append(guests.address(home))

    def look(self, now: float) -> None:
        if now >= self._every * (self.lost + 1) and self.lost < len(self._running) - SPARE_BOOTSTRAP:
            family = psutil.Process(self._running[self.lost].pid)
            for each in [*family.children(recursive=True), family]:
                with suppress(psutil.Error):
                    each.kill()
            self.lost += 1


def run(options: argparse.Namespace) -> dict[str, Any]:
    """From the first bootstrap node to the end."""
    seconds, hostile = 60 * options.minutes, max(1, options.nodes // 10)
    honest = options.nodes - hostile
    changes = recorded(options.trace, honest, seconds) if options.trace else []
    with ExitStack() as stack:
        work = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-hundred-")))
        bootstrap = Bootstrap(stack, work, int(options.minutes / options.lost_every), 60 * options.lost_every)
        config = NetworkConfig(mdns=False, peers=tuple(bootstrap.addresses))
        if options.quick:
            config = config.model_copy(update={"exchange_seconds": 2.0})
        nodes = [Node(number, work, config, window(options)) for number in range(honest)]
        victim = Victim(VICTIM)
        stack.callback(victim.close)
        stack.callback(all_go, nodes)
        for node in nodes:
            node.come(0.0)
        attackers = stack.enter_context(Attackers(options.hostile_cpu))
        for number in range(hostile):
            where = ("--host", address(honest + number), "--noise", "--victim", VICTIM)
            log = work / f"hostile{number}.log"
            attackers.add(kinds_of(number, hostile), bootstrap.addresses, SWARM, log, *where)
        partition = Partition(seconds / 2, seconds * 7 / 12)
        began, used = time.monotonic(), cpu_seconds()
        samples, histories = lived(nodes, changes, bootstrap, partition, victim, options, began)
        spent = (cpu_seconds() - used) / (time.monotonic() - began)
        attackers_spent = attackers.cpu() / (time.monotonic() - began)
        partition.look(float("inf"))
    return {
        **freshness(nodes, partition, window(options)),
        "memory": memory(samples, histories),
        "cores": {"all": spent, "hostile": attackers_spent},
        "hostile": attackers.counts(),
        "victim_bytes": victim.bytes,
        "changes": len(changes),
        "trace": str(options.trace or "none"),
        "bootstrap_lost": bootstrap.lost,
        "samples": samples,
        "settings": {"nodes": options.nodes, "minutes": options.minutes, "round_seconds": options.round_seconds},
    }


def lived(
    nodes: Sequence[Node],
    changes: Sequence[Change],
    bootstrap: Bootstrap,
    partition: Partition,
    victim: Victim,
    options: argparse.Namespace,
    began: float,
) -> tuple[list[dict[str, float]], dict[str, History]]:
    """All that happens, in its time; samples of memory, and the same of each process by itself."""
    samples: list[dict[str, float]] = []
    histories: dict[str, History] = {part: {} for part in PARTS}
    due, left = [options.round_seconds * node.number / len(nodes) for node in nodes], list(changes)
    while (now := time.monotonic() - began) < 60 * options.minutes:
        partition.look(now)
        bootstrap.look(now)
        victim.look()
        while left and left[0].second <= now:
            change = left.pop(0)
            node = nodes[change.node]
            if change.there and not node.there:
                node.come(now)
            elif not change.there:
                node.go(killed=len(left) % 2 == 0)
        for number, node in enumerate(nodes):
            if due[number] <= now:
                node.round(int(now // options.round_seconds), now)
                due[number] += options.round_seconds
        if now > 20.0 * len(samples):
            samples.append({"seconds": now, "there": sum(node.there for node in nodes), **sizes(nodes, now, histories)})
            print("  ".join(f"{name} {value:.0f}" for name, value in samples[-1].items()), flush=True)
        time.sleep(0.05)
    return samples, histories


def all_go(nodes: Sequence[Node]) -> None:
    with ThreadPoolExecutor(16) as pool:  # each takes a second to say goodbye
        list(pool.map(lambda node: node.go(killed=False), nodes))


def sizes(nodes: Sequence[Node], now: float, histories: dict[str, History]) -> dict[str, float]:
    """MB of the processes of an honest node, mean. Added to the histories."""
    found: dict[str, list[float]] = {part: [] for part in PARTS}
    for node in nodes:
        for pid in node.pids if node.there else ():
            with suppress(psutil.Error):
                process = psutil.Process(pid)
                for part, each in [(PARTS[0], process), *((PARTS[1], child) for child in process.children())]:
                    found[part].append(each.memory_info().rss / 1e6)
                    histories[part].setdefault(each.pid, []).append((now, found[part][-1]))
    return {part: fmean(values) if values else 0.0 for part, values in found.items()}


def memory(samples: Sequence[dict[str, float]], histories: dict[str, History]) -> dict[str, Any]:
    """MB at the end and the largest mean; and of the processes that lived through the second half of the run the mean
    slope in it, MB an hour, None where there are none."""
    begin, end = samples[len(samples) // 2]["seconds"], samples[-1]["seconds"]
    found = {}
    for part in PARTS:
        lines = [[point for point in line if point[0] >= begin] for line in histories[part].values()]
        whole = [line for line in lines if len(line) > 1 and line[0][0] == begin and line[-1][0] == end]
        slopes = [3600 * linear_regression(*zip(*line, strict=True)).slope for line in whole]
        largest = max(sample[part] for sample in samples)
        slope = fmean(slopes) if slopes else None
        found[part] = {"end": samples[-1][part], "largest": largest, "slope": slope, "processes": len(slopes)}
    return found


def window(options: argparse.Namespace) -> float:
    """Seconds of what is called a minute: a third of one where two minutes are all there is."""
    return MINUTE / 3 if options.quick else MINUTE


def freshness(nodes: Sequence[Node], partition: Partition, window: float) -> dict[str, Any]:
    """Minutes of honest nodes with and without a fresh group, and which nodes had one without."""
    asked = [(node, minute) for node in nodes for minute in sorted(node.minutes)]
    none = [(node.number, minute) for node, minute in asked if not node.fresh[minute]]
    cut = range(int(partition.begin // window), int(partition.end // window) + 1)
    groups = sum(node.fresh[minute] for node, minute in asked)
    return {
        "node_minutes": len(asked),
        "without_fresh": len(none),
        "of_those_in_partition": sum(minute in cut for _, minute in none),
        "nodes_without": sorted({number for number, _ in none}),
        "fresh_groups_a_minute": groups / max(1, len(asked)),
        "never_fresh": [node.number for node in nodes if node.minutes and not sum(node.fresh.values())],
    }


def show(result: dict[str, Any]) -> None:
    lines = []
    for part, it in result["memory"].items():
        slope = "none" if it["slope"] is None else f"{it['slope']:+.1f}"
        lines.append([part, f"{it['end']:.1f}", f"{it['largest']:.1f}", slope, f"{it['processes']}"])
    columns = ["end", "largest", "slope of the second half, MB an hour", "processes that lived through it"]
    command.show(["MB of an honest node", *columns], lines)
    print(
        f"\n{result['node_minutes']} minutes of honest nodes, {result['without_fresh']} without a fresh group"
        f" ({result['of_those_in_partition']} of them in the partition), by nodes {result['nodes_without']};"
        f" {result['fresh_groups_a_minute']:.1f} fresh groups a minute"
    )
    print(
        f"trace: {result['trace']}, {result['changes']} comings and goings; {result['bootstrap_lost']} bootstrap nodes"
        f" lost; cores {result['cores']['all']:.2f}, of the hostile {result['cores']['hostile']:.2f};"
        f" bytes at the victim {result['victim_bytes']}; the hostile did {result['hostile']}"
    )


if __name__ == "__main__":
    main()
