"""Follows docs/how-to/found_a_swarm.md word for word, each of its computers in a network namespace
of its own.

The title of a block says on which computer it is typed. The script fills in what only the reader
can know: addresses, the network id, a code. `docker compose` starts processes (processes.py).
Members are behind NATs. Run it as root:

    PYTHONPATH=. python docker/check_public_swarm.py
"""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from lab.benchmarks import command
from lab.benchmarks.internet.namespaces import Internet
from lab.benchmarks.pages import BLOCK, HOW_TO, READY_SECONDS, RUNS_ON, lines, ready
from lab.benchmarks.waiting import until
from swarm_node.network.process.keeper import CARDS_FILE, load_cards

LAPTOPS = ("Ann's laptop", "Bob's laptop", "Cem's laptop")
SERVERS = ("Ann's server", "Bob's server", "Cem's server", "fourth server")
MEMBERS = ("member with the file", "member with the address", "member with a code")
EVERY = {"each laptop": LAPTOPS, "each server": SERVERS, ".env": SERVERS, "each member": MEMBERS}
# Placeholder: output with it
OPEN = {"NETWORK": r"^. network +([a-z2-7]{26})$", r"swarm:\w+\.\.\.": r"^swarm:[\w-]+$"}
LASTING = re.compile(r"^(swarm-node (?:run|join) .*|python3 -m http\.server .*)$", re.M)
ASKED = """import sys, urllib.request as web
query = "http://127.0.0.1:9090/api/v1/query?query=" + web.quote(sys.argv[1])
print(web.urlopen(query).read().decode())"""
BINARIES = ("docker-compose", "prometheus", "prometheus-alertmanager")
PENDING = 'count(ALERTS{alertname="SwarmBootstrapUnreachable",alertstate="pending"})'


class Founding:
    """All computers of the page. Types the commands of the page on them."""

    def __init__(self, work: Path, internet: Internet) -> None:
        (work / "chat").mkdir()
        docker = command.installed(work).with_name("docker")
        docker.write_text(
            f'#!/bin/sh\nexec {sys.executable} {command.ROOT}/docker/processes.py "$@"\n'
        )
        docker.chmod(0o700)
        # As Debian calls it
        docker.with_name("alertmanager").symlink_to(f"/usr/bin/{BINARIES[-1]}")
        self._work, self._known, self.commands, self.left_out = (
            work,
            dict[str, str](),
            0,
            set[str](),
        )
        names = (*LAPTOPS, *SERVERS, *MEMBERS)
        self.hosts = {
            name: (internet.behind_nat if name in MEMBERS else internet.public)(
                f"f{names.index(name)}"
            )
            for name in names
        }
        for name in names:
            if name in SERVERS:
                shutil.copytree(command.ROOT / "docker" / "monitoring", self.folder(name))
                self.resolver(name).mkdir(parents=True)  # `ip netns exec` lays it over /etc
                (self.resolver(name) / "hosts").write_text(
                    "127.0.0.1 localhost bootstrap alertmanager\n"
                )
            self.folder(name).mkdir(exist_ok=True)
            (self.folder(name) / "chat").symlink_to(work / "chat")

    def folder(self, name: str) -> Path:
        return self._work / re.sub(r"\W", "-", name)

    def home(self, name: str) -> Path:
        return self.folder(name) / ("bootstrap" if name in SERVERS else ".swarm-node")

    def resolver(self, name: str) -> Path:
        return Path("/etc/netns", self.hosts[name].name)

    def follow(self) -> None:
        """Follows the page from the first block to the last. KeyError for commands whose title
        names no computer.
        """
        for language, title, text in BLOCK.findall(
            (HOW_TO / "found_a_swarm.md").read_text(encoding="utf-8")
        ):
            for name in EVERY.get(title, (title,)):
                if language != "bash":
                    (self.folder(name) / title).write_text(self.filled(text, name))
                    continue
                self.commands += len(lines(text))
                for part in filter(str.strip, LASTING.split(text)):
                    self.type(self.filled(part.strip(), name), name)

    def filled(self, text: str, name: str) -> str:
        """The text, with its placeholders replaced by what its reader knows."""
        own = self.hosts[name if name in SERVERS else SERVERS[0]].address
        for pattern, value in {r"203\.0\.113\.7": own, **self._known}.items():
            text = re.sub(pattern, value, text)
        return text

    def type(self, text: str, name: str) -> None:
        folder = self.folder(name)
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("SWARM_NODE_")
        }
        variables |= {
            "HOME": str(folder),
            "USER": folder.name,
            "PATH": f"{self._work / 'bin'}:{os.environ['PATH']}",
        }
        sys.stdout.write(f"{name}: {text}\n")
        typed, said = ["bash", "-euo", "pipefail", "-c", text], folder / "output.txt"
        with said.open("w") as log:
            process = self.hosts[name].popen(
                typed, cwd=folder, env=variables, stdout=log, stderr=subprocess.STDOUT
            )
        if not text.startswith("python3"):
            ends = not RUNS_ON.match(text)
            until(
                lambda: process.poll() is not None or (not ends and ready(said.read_text())),
                READY_SECONDS,
                text,
            )
            assert process.poll() == (0 if ends else None), said.read_text()
        found = {
            pattern: re.findall(shown, said.read_text(), re.M) for pattern, shown in OPEN.items()
        }
        self._known |= {pattern: shown[-1] for pattern, shown in found.items() if shown}
        self.left_out |= set(re.findall(r"^left out, .*", said.read_text(), re.M))

    def sees(self, query: str, value: float, servers: int = len(SERVERS)) -> bool:
        """Whether the Prometheus of each of the first `servers` servers answers the query with this
        one value.
        """
        asking = [
            self.hosts[name].popen([sys.executable, "-c", ASKED, query], stdout=subprocess.PIPE)
            for name in SERVERS[:servers]
        ]
        found = [json.loads(each.communicate()[0])["data"]["result"] for each in asking]
        return all([float(each["value"][1]) for each in one] == [value] for one in found)

    def cpu_seconds(self) -> float:
        """The CPU time of all processes that were started: of those that ended, and of those in the
        namespaces.
        """
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = ended.ru_utime + ended.ru_stime
        for host in self.hosts.values():
            asked = ["ip", "netns", "pids", host.name]
            for pid in subprocess.run(
                asked, capture_output=True, text=True, check=True
            ).stdout.split():
                with suppress(psutil.NoSuchProcess):
                    times = psutil.Process(int(pid)).cpu_times()
                    total += times.user + times.system + times.children_user + times.children_system
        return total

    def has_card(self, number: int) -> bool:
        """Whether each server and each member has the cards up to this number, and no other."""
        homes = map(self.home, (*SERVERS, *MEMBERS))
        return all(len(load_cards(home / CARDS_FILE)[0]) == number for home in homes)

    def trained(self, name: str) -> bool:
        """Whether this node has trained on an external group."""
        return bool(
            re.search(
                r'"external_informative": [1-9]', (self.home(name) / "events.jsonl").read_text()
            )
        )


def main() -> None:
    began = time.monotonic()
    with TemporaryDirectory(prefix="founding-") as work, Internet() as internet:
        hour = Founding(Path(work), internet)

        def reached(what: str, found: Callable[[], object]) -> None:
            until(found, READY_SECONDS, what)
            sys.stdout.write(
                f"| {what} | {time.monotonic() - began:.0f} | {hour.cpu_seconds():.0f} |\n"
            )
            sys.stdout.flush()

        try:
            hour.follow()
            reached(f"all {hour.commands} commands of the page are typed", lambda: True)
            reached(
                "each member has trained on groups of others",
                lambda: all(map(hour.trained, MEMBERS)),
            )
            reached("each bootstrap node and each member has card 2", lambda: hour.has_card(2))
            reached("each Prometheus sees it", lambda: hour.sees("swarm_node_card_number", 2))
            reached(
                "and three other bootstrap nodes",
                lambda: hour.sees("sum(swarm_node_bootstrap_reachable)", 3),
            )
            internet.cut(hour.hosts[SERVERS[-1]])
            reached(
                "one is cut off: the others have an alert that waits",
                lambda: hour.sees(PENDING, 1, servers=3),
            )
            sys.stdout.write("".join(f"{each}\n" for each in sorted(hour.left_out)))
        finally:
            for name in SERVERS:
                shutil.rmtree(hour.resolver(name))


if __name__ == "__main__":
    main()
