"""What a host of the cluster must have in common with the driver: code, packages, configuration, environment."""

import hashlib
import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError
from swarm_node.telemetry.manifest import commit, versions

ROOT = Path(__file__).resolve().parents[3]
PASSED = ("HF_", "TRANSFORMERS_")  # variables that say where models come from, secrets among them


def origin() -> dict[str, Any]:
    """Of this machine, as plain data for a task."""
    return {
        "code": code_digest(),
        "commit": commit(ROOT),
        "versions": versions(),
        "folder": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name.startswith(PASSED)},
    }


def check_same(there: Mapping[str, Any]) -> None:
    """UserError where this machine would compute something else than the driver, which `there` describes."""
    where, known = f"the worker on {platform.node()}", there["commit"] or "that of the driver"
    if there["code"] != code_digest():
        raise UserError(f"{where} has other code: install commit {known} there")
    here = versions()
    for name in sorted(there["versions"].keys() | here.keys()):
        if (ours := here.get(name)) != (theirs := there["versions"].get(name)):
            raise UserError(f"{where} has {name} {ours}, not {theirs}: install the same there")


def folder_of(there: Mapping[str, Any]) -> str | None:
    """The driver's folder if it exists here. Without it only a configuration without relative paths works."""
    return there["folder"] if os.path.isdir(there["folder"]) else None


@cache
def code_digest() -> str:
    """Of all modules that a worker may run."""
    digest = hashlib.sha256()
    for room in ("protocol", "swarm_node"):
        for file in sorted((ROOT / room).rglob("*.py")):
            digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()
