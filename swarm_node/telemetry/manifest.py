"""The records of a run in its folder: events.jsonl, and the manifest, which has the facts that are
needed to run it again and is written before it starts.

Imports no torch: it takes the names of GPUs from torch if something else has imported it, else from
the driver.
"""

import datetime
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from swarm_node.common import memory
from swarm_node.common.cards import cards
from swarm_node.common.children import OF_THE_USER, clean_environment, usable_cores
from swarm_node.common.errors import reason_of
from swarm_node.common.files import write_json
from swarm_node.common.redaction import hidden
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Telemetry, Warned
from swarm_node.telemetry.jsonlines import JsonLines

PACKAGES = (
    "swarm-node", "torch", "transformers", "peft", "safetensors", "tokenizers", "reasoning-gym",
    "pydantic", "cryptography", "numpy",
)  # fmt: skip
# Of events.jsonl; then it is put aside as events.1.jsonl, in place of the one before
MOST_BYTES = 100_000_000
GIT_SECONDS = 5.0  # a git that takes longer is not waited for


def manifest(
    kind: str,
    config: BaseModel,
    seeds: Sequence[int],
    command: Sequence[str] | None = None,
    models: Sequence[str] = (),
) -> dict[str, Any]:
    """The content of a manifest. `kind` says what made the folder ("simulation", "node"), so that
    no other folder is taken for one. Secrets stand in it as `***`. `models`: a line on each model
    that is trained.
    """
    words = sys.argv if command is None else command
    return {
        "kind": kind,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": [hidden(word) for word in words],
        "seeds": list(seeds),
        "config": config.model_dump(mode="json"),
        "models": list(models),
        "commit": commit(Path(__file__).resolve().parents[2]),
        "versions": versions(),
        "hardware": hardware(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of those installed packages that matter to a result."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            # Keys stay
            found[name] = metadata.version("textswarm" if name == "swarm-node" else name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit(root: Path) -> str | None:
    """The commit of the checkout that runs, with "+changes" if files differ from it. None outside a
    checkout.
    """
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    head = _output([git, "-C", str(root), "rev-parse", "HEAD"])
    if head is None:
        return None
    changes = _output(
        [
            git,
            "--no-optional-locks",
            "-C",
            str(root),
            "status",
            "--porcelain",
            "--untracked-files=no",
        ]
    )
    return head + ("+changes" if changes else "")


def hardware() -> dict[str, Any]:
    """Facts about the machine; memory in GiB."""
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "memory_gib": round(memory.total() / 2**30, 1),
        "gpus": _gpu_names(),
    }


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _gpu_names() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        return [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return [card.name for card in cards()]


def _output(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=False,
            env=clean_environment(OF_THE_USER),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def keep_records(telemetry: Telemetry, home: Path, config: NodeConfig, model: str = "") -> None:
    """Write the manifest, with the line on the model, and from now on every event. If the folder
    cannot be written, only these files are lost.
    """
    try:
        write_json(home / "manifest.json", manifest("node", config, [config.seed], None, [model]))
        telemetry.add(JsonLines(home / "events.jsonl", telemetry.show, most=MOST_BYTES))
    except OSError as error:
        telemetry.emit(
            Warned(
                f"{home} cannot be written: {reason_of(error)}; training continues, make room there"
            )
        )
