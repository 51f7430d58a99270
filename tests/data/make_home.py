"""What 0.1.0 leaves behind, small: two homes, an interrupted simulation, and the names of the keys it writes.

    python -m tests.data.make_home

makes tests/data/0.1.0 again, by the code of the tag v0.1.0, which git must have. Two nodes on loopback hear each other
until one has a pool, and the other, asynchronous, has rounds that wait; both are then told to stop. A worker of the
simulation is killed when the first cell is finished. Takes a minute. What differs each time are keys and clocks.
"""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import torch

from lab.benchmarks import compatibility
from lab.benchmarks.waiting import until
from swarm_node.network.process.service import free_port
from tests.data import keys
from tests.models import EOS, VOCABULARY, characters, tiny_model

DATA = Path(__file__).parent / "0.1.0"
RELEASE = "v0.1.0"
ASYNCHRONOUS = ("--asynchronous.enabled", "--asynchronous.max-staleness", "2", "--training.objective", "decoupled")
SLOW = ("--validation.questions", "256")  # a round of so small a model takes no time: no file should grow large
HEARING = ("--round.external-groups", "1", "--network.pull", "8")  # more than is drawn, so that some is left
MANY = ("--round.questions", "24")  # of the node whose rounds are not kept: it has much to say
SIMULATION = (
    *("--nodes", "3", "--rounds", "3", "--arms", "2/0", "1/1", "--workers", "1", "--threads", "1"),
    *("--model.name", "model", "--generation.num-generations", "4", "--generation.max-completion-length", "3"),
    *("--round.questions", "4", "--environment.tasks", "gcd/easy", "count_bits/easy"),
    *("--attack.kind", "stealth", "--attack.share", "0.34", "--defence.use", "length", "ngrams", "rescue"),
)
LEFT_OUT = ("lock", "control.sock", "generator.log", "*.log")  # nothing that a later run reads


def make_model(folder: Path) -> None:
    """A Llama of three thousand parameters that answers digits, so that some answers are right."""
    size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = tiny_model("Llama", num_key_value_heads=1, **size)
    tokenizer = characters()
    digits = tokenizer.convert_tokens_to_ids(list("1234"))
    with torch.no_grad():
        model.get_input_embeddings().weight[:, 0] = 4.0  # a coordinate that is large whatever was read ...
        model.lm_head.weight *= 0.2
        model.lm_head.weight[:, 0] = 0.0
        model.lm_head.weight[digits, 0] = 2.5  # ... so that these are likely
        model.lm_head.weight[EOS, 0] = 3.0
    assert len(tokenizer) == VOCABULARY
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@contextmanager
def node(python: Path, folder: Path, home: str, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    words = [str(python), "-m", "swarm_node.cli", "run", "node.toml", "--home", home, *SLOW, *HEARING, *flags]
    with (folder / f"{home}.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, env=compatibility.clean(), stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)


def made(python: Path, folder: Path, home: str) -> str:
    """The name in the swarm of a home that is made now."""
    words = [str(python), "-m", "swarm_node.cli", "init", "--home", home]
    return subprocess.check_output(words, cwd=folder, env=compatibility.clean(), text=True).split()[0]


def status(python: Path, folder: Path, home: str) -> dict[str, Any]:
    words = [str(python), "-m", "swarm_node.cli", "status", "--home", home, "--json"]
    done = subprocess.run(words, cwd=folder, env=compatibility.clean(), capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def connected(python: Path, folder: Path, home: str) -> dict[str, Any] | None:
    """What the node says once it has something to say of each thing."""
    said = status(python, folder, home)
    return said if said.get("network", {}).get("peers") and "round" in said["training"] else None


def state(home: Path) -> dict[str, Any]:
    """What the newest checkpoint keeps; empty where one is just being replaced."""
    with suppress(OSError, StopIteration):
        newest = max(home.glob("checkpoints/[0-9]*/state.json"), default=None)
        if newest is not None:
            found: dict[str, Any] = json.loads(newest.read_text())["extra"]
            return found
    return {}


def make_homes(python: Path, folder: Path) -> list[dict[str, Any]]:
    """Two homes. What their nodes said of themselves meanwhile."""

    def heard(home: str) -> bool:
        kept = state(folder / home)
        return (
            bool(kept) and len(kept["pool"]["heard"]) > 3 and bool(kept["pool"]["spent"] and kept["defence"]["heard"])
        )

    entry, port = made(python, folder, "synchronous"), str(free_port())
    peers = ("--peers", f"/ip4/127.0.0.1/tcp/{port}/p2p/{entry}")
    with (
        node(python, folder, "synchronous", "--network.port", port, *MANY) as one,
        node(python, folder, "asynchronous", *peers, *ASYNCHRONOUS) as other,
    ):
        said = [
            until(partial(connected, python, folder, home), 60, f"{home}: meeting")
            for home in ("synchronous", "asynchronous")
        ]
        until(lambda: heard("synchronous") and heard("asynchronous"), 60, "hearing each other")
        for process in (one, other):
            process.send_signal(signal.SIGTERM)
    for home in ("synchronous", "asynchronous"):
        assert state(folder / home)["pool"]["heard"], f"{home}: nothing is left in the pool"
    assert state(folder / "asynchronous")["waiting"], "no round waits"
    assert "ledger" in state(folder / "asynchronous")["waiting"][0]
    return said


def make_simulation(python: Path, folder: Path) -> None:
    words = [str(python), "-m", "swarm_node.cli", "simulate", *SIMULATION, "--out", "simulation"]
    process = subprocess.Popen(words, cwd=folder, env=compatibility.clean(), stdout=subprocess.DEVNULL)
    until(lambda: list(folder.glob("simulation/cells/*.json")), 60, "a finished cell")
    (worker,) = until(lambda: workers(process.pid), 30, "the next worker")
    worker.kill()
    assert process.wait(60) == 2
    assert len(list(folder.glob("simulation/cells/*.json"))) == 1


def workers(pid: int) -> Sequence[psutil.Process]:
    found = []
    for child in psutil.Process(pid).children():
        with suppress(psutil.Error):
            found += [child] if "swarm_node.simulation.worker" in child.cmdline() else []
    return found


def make_keys(folder: Path, said: list[dict[str, Any]], report: dict[str, Any]) -> dict[str, list[str]]:
    files = [folder / name / "events.jsonl" for name in ("synchronous", "asynchronous", "simulation", "finished")]
    events = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {
        "events.jsonl": sorted(keys.of_events(events)),
        "report.json": sorted(set(keys.names(report))),
        "status --json": sorted({name for answer in said for name in keys.names(answer)}),
    }


def finish(python: Path, folder: Path) -> dict[str, Any]:
    """The report of the same simulation, gone on with by the same code."""
    shutil.copytree(folder / "simulation", folder / "finished")
    manifest = folder / "finished" / "manifest.json"  # as if of other code, which is a reason for a warning
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "commit": "another"}))
    words = [str(python), "-m", "swarm_node.cli", "simulate", *SIMULATION, "--out", "finished", "--resume"]
    subprocess.run(words, cwd=folder, env=compatibility.clean(), stdout=subprocess.DEVNULL, check=True)
    report: dict[str, Any] = json.loads((folder / "finished" / "report.json").read_text())
    return report


def keep(folder: Path, temporary: Path) -> None:
    """Copies what was made here, without the names of this machine's folders."""
    for name in ("model", "synchronous", "asynchronous", "simulation"):
        shutil.rmtree(DATA / name, ignore_errors=True)
        shutil.copytree(folder / name, DATA / name, ignore=shutil.ignore_patterns(*LEFT_OUT))
    shutil.rmtree(DATA / "asynchronous" / "best", ignore_errors=True)  # one will do
    for manifest in DATA.glob("*/manifest.json"):
        manifest.write_text(manifest.read_text().replace(str(temporary), ""))


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="make-home-") as name:
        temporary = Path(name)
        python = compatibility.sides(RELEASE, temporary)["release"]
        (folder := temporary / "made").mkdir()
        shutil.copy(DATA / "node.toml", folder)
        make_model(folder / "model")
        said = make_homes(python, folder)
        make_simulation(python, folder)
        found = make_keys(folder, said, finish(python, folder))
        keep(folder, temporary)
    (DATA / "keys.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
