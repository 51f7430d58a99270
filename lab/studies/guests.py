"""Nodes, contributors and the TRL example as separate processes on loopback, and readers of what
they write.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.benchmarks.waiting import until
from protocol.messages import PeerId
from swarm_node.home.folder import load_identity
from swarm_node.network.process import control
from swarm_node.telemetry.jsonlines import read_jsonlines

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "trl" / "train.py"
ASKED = ("products/tiny", "lcm/tiny", "count_bits/tiny")  # tasks that the example practises
HERE = ("--network.host", "127.0.0.1", "--network.no-mdns", "--network.exchange-seconds", "2")
READY_SECONDS, STOP_SECONDS = 600.0, 120.0  # the machine may be busy


@contextmanager
def running(
    command: Sequence[object],
    home: Path,
    environment: Mapping[str, str] | None = None,
    inside: Sequence[str] = (),
) -> Iterator["subprocess.Popen[bytes]"]:
    """Starts a node, a contributor or the TRL example as a process, and terminates it when the
    `with` block ends. What the process prints goes to a file beside its home.

    `inside` holds words to put before the command, such as those that enter a network namespace.
    """
    home.parent.mkdir(parents=True, exist_ok=True)
    with log(home).open("wb") as output:
        asked = [*inside, sys.executable, *map(str, command)]
        known = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
        process = subprocess.Popen(asked, stdout=output, stderr=subprocess.STDOUT, env=known)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def log(home: Path) -> Path:
    """The file with the output of the process that has this home."""
    return home.with_name(f"{home.name}.log")


def tasks(names: Sequence[str] = ASKED) -> tuple[str, str]:
    """The option that makes a node practise these tasks."""
    return "--environment.tasks", ",".join(names)


def node(
    home: Path, *arguments: object, model: str = "rarest", asked: Sequence[str] = ASKED
) -> list[object]:
    """The command of a node, which trains on few groups a round as the example does."""
    few = (
        "--threads",
        1,
        "--round.questions",
        4,
        "--round.local-groups",
        2,
        "--round.external-groups",
        2,
    )
    line = ["-m", "swarm_node.commands.cli", "run", "--home", home, "--model.name", model]
    return [*line, *few, *tasks(asked), *HERE, *arguments]


def of_script(steps: int, seed: int, external: int, asked: Sequence[str] = ASKED) -> dict[str, str]:
    """The environment variables that the example reads."""
    options = {
        "STEPS": str(steps),
        "SEED": str(seed),
        "EXTERNAL": str(external),
        "TASKS": " ".join(asked),
    }
    return {**options, "HOST": "127.0.0.1", "MDNS_OFF": "1", "OMP_NUM_THREADS": "1"}


def address(home: Path) -> str:
    """The TCP address of a running node, once it listens."""

    def listening() -> list[str]:
        network = (control.ask(home) or {}).get("network") or {}
        return [each for each in network.get("addresses", []) if "/tcp/" in each]

    return until(listening, READY_SECONDS, f"{home.name} listening")[0]


def peer_id(home: Path) -> PeerId:
    """The peer id of the process that has this home, once it has made its identity."""
    return load_identity(home).peer_id


def rewards(home: Path) -> list[float]:
    """Mean reward of local groups, by round of a node or by step of the example."""
    if (home / "steps.jsonl").exists():
        return [line["reward"] for line in read_jsonlines(home / "steps.jsonl")]
    return [report["reward"] for report in reports(home)]


def trained_on(home: Path) -> set[PeerId]:
    """The authors whose groups a node or the example has trained on so far."""
    if (home / "steps.jsonl").exists():
        lines = list(read_jsonlines(home / "steps.jsonl"))
        return set(lines[-1]["trained"]) if lines else set()
    counts = [report.get("external_by_peer", {}) for report in reports(home)]
    return {peer for each in counts for peer, count in each.items() if count.get("trained")}


def reports(home: Path) -> list[dict[str, Any]]:
    file = home / "events.jsonl"
    return (
        [each["report"] for each in read_jsonlines(file) if each["event"] == "RoundDone"]
        if file.exists()
        else []
    )
