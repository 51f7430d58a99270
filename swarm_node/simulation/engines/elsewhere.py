"""What another machine must have in common with the one where a simulation was started: code,
packages, and the variables that say where models come from.
"""

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
ROOMS = ("protocol", "swarm_node")
PASSED = ("HF_", "TRANSFORMERS_")  # variables that say where models come from, secrets among them


def origin() -> dict[str, Any]:
    """What counts of this machine, as plain data for another one."""
    variables = os.environ.items()
    return {
        "code": code_digest(),
        "commit": commit(ROOT),
        "versions": versions(),
        "folder": os.getcwd(),
        "environment": {name: value for name, value in variables if name.startswith(PASSED)},
    }


def check_same(there: Mapping[str, Any]) -> None:
    """UserError where this machine, which has a worker, would compute something else than the
    machine that `there` describes, on which the simulation was started.
    """
    where = f"the worker on {platform.node()}"
    if there["code"] != code_digest():
        named = f"commit {there['commit']}" if there["commit"] else "the code"
        raise UserError(
            f"{where} has other code: install {named} of the machine where you started the "
            "simulation"
        )
    here = versions()
    for name in sorted(there["versions"].keys() | here.keys()):
        ours, theirs = here.get(name), there["versions"].get(name)
        if ours != theirs:
            raise UserError(
                f"{where} has {name} {ours}, and the machine where you started the simulation has "
                f"{theirs}: install the same version on both"
            )


def enter_folder_of(there: Mapping[str, Any]) -> None:
    """Goes to the folder in which the simulation was started, where this machine has it. Without
    it, only names of files that begin with / are found.
    """
    if os.path.isdir(there["folder"]):
        os.chdir(there["folder"])


@cache
def code_digest() -> str:
    """The digest of all modules that a worker may run."""
    digest = hashlib.sha256()
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()
