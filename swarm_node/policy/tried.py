"""Remembers in a file what was tried with a model on this machine, and whether it worked, so that a
node tries it once.

What is remembered is true for one model, one version of the code and one device: `subject` names
all three. If the file is damaged, or not written by a node, everything is tried again, and one line
says so. A trial that fails with an error or for lack of memory is not remembered, because the
reason may be gone next time.
"""

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch
import transformers

from swarm_node.common.errors import reason_of
from swarm_node.common.files import read_plain, write_bytes
from swarm_node.common.parsing import parse_typed

FILE = "tried.json"  # in a home
MAX_BYTES = 64 * 1024
# That are remembered, the latest: a home has one model, and some options that change it
SUBJECTS = 16
CODE = Path(__file__).parents[1]
# Folders of the code that is tried, except that of a precision
ROOMS = ("policy", "generation", "training")
# Of a model's config
NO_MATTER = {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}

Answers = dict[str, dict[str, bool]]


class _Remembered(msgspec.Struct):
    answers: Answers
    digest: str


class Tried:
    """Answers by subject and name. Without a file they are remembered as long as this object
    lives.
    """

    def __init__(
        self, path: Path | None = None, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        self.path = path
        self._answers = {} if path is None else _read(path, warn)

    def ask(self, subject: str, name: str, trial: Callable[[], bool | None]) -> bool:
        """Whether `name` works: the remembered answer, else that of `trial`, which is None if the
        trial failed.
        """
        known = self._answers.get(subject, {}).get(name)
        if known is not None:
            return known
        found = trial()
        if found is not None:
            self._remember(subject, name, found)
        return bool(found)

    def _remember(self, subject: str, name: str, found: bool) -> None:
        self._answers.setdefault(subject, {})[name] = found
        if self.path is None:
            return
        whole = _read(self.path, lambda text: None)  # again: an asynchronous node has two processes
        whole[subject] = {**whole.pop(subject, {}), **self._answers[subject]}
        kept = dict(list(whole.items())[-SUBJECTS:])
        with suppress(OSError):  # it is tried again next time
            write_bytes(
                self.path,
                json.dumps({"answers": kept, "digest": _digest(kept)}).encode(),
                mode=0o600,
            )


def subject(facts: Mapping[str, Any], model: Any, device: torch.device) -> str:
    """The digest of all that an answer depends on: `facts`, shapes of the model, this code, its
    libraries, the device.
    """
    config = {key: value for key, value in model.config.to_dict().items() if key not in NO_MATTER}
    whole = {
        "facts": dict(facts),
        "class": type(model).__name__,
        "config": config,
        "attention": getattr(model.config, "_attn_implementation", None),
        "weights": [[name, list(p.shape), str(p.dtype)] for name, p in model.named_parameters()],
        "code": code_digest(),
        "libraries": [torch.__version__, transformers.__version__, platform.python_version()],
        "device": _described(device),
    }
    return _digest(whole)


def code_digest() -> str:
    """The digest of the code that is tried: another release, or a changed checkout, tries again."""
    return _digest([folder_digest(CODE / room) for room in ROOMS])


@cache
def folder_digest(folder: Path) -> str:
    """The digest of all Python files in a folder, with their names."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _described(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{device} {torch.cuda.get_device_name(device)} {torch.version.cuda}"
    return f"{device} {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _read(path: Path, warn: Callable[[str], None]) -> Answers:
    """The answers in the file; none, and a warning, if it cannot be read or is damaged."""
    try:
        content = read_plain(path, MAX_BYTES + 1, follow=False)
    except FileNotFoundError:
        return {}
    except OSError as error:
        warn(
            f"{path} cannot be read ({reason_of(error)}): the node tries again what the model "
            "can do"
        )
        return {}
    with suppress(ValueError):
        kept = parse_typed(content, _Remembered)
        if len(content) <= MAX_BYTES and kept.digest == _digest(kept.answers):
            return kept.answers
    warn(f"{path} is damaged and is ignored: the node tries again what this model can do")
    return {}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
