"""Rows of a data set of the Hugging Face hub, and of the copy that is kept of it.

The reader runs in a process with few variables (`elsewhere.py`). It gets the hub's variables only
if the user names a data set of the hub (`variables`). Other processes that need the questions, such
as the generator and the workers of a simulation, have neither the user's token nor a proxy. So each
reading keeps a copy of the rows in the user's cache, for this user alone, and where the hub gives
nothing the copy is read, and a line says so. A node without a connection reads it at once.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from swarm_node.common.children import KEPT_VARIABLES, clean_environment
from swarm_node.common.errors import UserError, first_line, printable
from swarm_node.common.files import cached
from swarm_node.common.redaction import hidden, without_secrets
from swarm_node.environments.dataset import bounds
from swarm_node.policy import named

HUB = "hf:"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
# What the libraries of the hub read: where it is, who asks, where they keep what they have got
OF_THE_HUB = (
    "HF_ENDPOINT", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME",
    "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HUB_OFFLINE",
    "HF_DATASETS_OFFLINE", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_ETAG_TIMEOUT", "HF_HUB_DISABLE_TELEMETRY", "HF_HUB_DISABLE_XET", "XDG_CACHE_HOME",
    "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
    *PROXIES, *(name.lower() for name in PROXIES),
)  # fmt: skip
# It would tell a third server of each reading
SILENT = {"HF_UPDATE_DOWNLOAD_COUNTS": "0"}

# Lines for the user, of the one data set that this process reads
notes: list[str] = []


def variables(file: str) -> dict[str, str]:
    """The environment of the process that reads this data set."""
    if not file.startswith(HUB):
        return clean_environment()
    return clean_environment((*KEPT_VARIABLES, *OF_THE_HUB), SILENT)


def rows(name: str) -> Iterator[tuple[int, bounds.Read]]:
    """The rows of NAME[:CONFIG[:SPLIT]]. UserError, in one line, where they are not available."""
    if "://" in name:
        page = re.fullmatch(r"https?://[^/]+/datasets/([\w.-]+/[\w.-]+)/?", name)
        meant = f"; this is {HUB}{page[1]}" if page else ""
        raise UserError(
            f"data set {HUB}{name} is an address: write {HUB}OWNER/NAME, {HUB}OWNER/NAME:CONFIG or "
            f"{HUB}OWNER/NAME:CONFIG:SPLIT{meant}"
        )
    repository = name.partition(":")[0]
    if not repository:
        raise UserError(
            f"{HUB} names no data set: write {HUB}NAME, {HUB}NAME:CONFIG or {HUB}NAME:CONFIG:SPLIT"
        )
    if Path(repository).expanduser().is_dir() or not named.is_hub_name(repository):
        yield from _from_the_library(name, name, {"streaming": True})
        return
    copy, problem = _copy_of(name), _unreachable(repository)
    if not problem:
        count = 0
        try:
            for count, row in _keeping(copy, _from_the_library(name, name, {"streaming": True})):
                yield count, row
            return
        except UserError as error:
            if count or not copy.is_file():
                raise
            problem = str(error)
    if copy.is_file():
        day = time.strftime("%Y-%m-%d", time.localtime(copy.stat().st_mtime))
        notes.append(f"{problem}: the rows are those that were read on {day}")
        yield from _of_copy(copy)
    else:
        yield from _of_caches(name, problem)


def _unreachable(repository: str) -> str:
    """Why the hub may not be asked, or does not answer; "" where it answers."""
    if os.environ.get("HF_DATASETS_OFFLINE", "").lower() in named.OFFLINE:
        return "HF_DATASETS_OFFLINE is set"
    return named.unreachable(repository, kind="datasets/")


def _from_the_library(
    name: str, source: str, options: Mapping[str, Any]
) -> Iterator[tuple[int, bounds.Read]]:
    """The rows of SOURCE[:CONFIG[:SPLIT]]; `name` is what the user calls it."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise UserError(
            "data sets of the hub need the extra data: pip install 'textswarm[data]'"
        ) from error
    repository, config, split = [*source.split(":"), "", ""][:3]
    try:
        yield from enumerate(
            load_dataset(repository, config or None, split=split or "train", **options), 1
        )
    except Exception as error:  # whatever the library raises for a name, a network or a file
        raise UserError(f"data set {HUB}{name} cannot be loaded: {_shown(error)}") from error


def _of_caches(name: str, problem: str) -> Iterator[tuple[int, bounds.Read]]:
    """The rows by what the libraries of the hub have in their caches, without a connection."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # before they are imported
    repository, colon, rest = name.partition(":")
    source, options = name, dict[str, Any]()
    with suppress(Exception):  # each library underneath raises types of its own
        from huggingface_hub import snapshot_download

        folder = snapshot_download(repository, repo_type="dataset", local_files_only=True)
        source, options = f"{folder}{colon}{rest}", {"streaming": True}
    begun = False
    try:
        for place, row in _from_the_library(name, source, options):
            begun = True
            yield place, row
        return
    except UserError as error:
        if begun or isinstance(error.__cause__, ImportError):
            raise
    # Outside of that block: the library's own error would tell that it may pass
    cause = None if problem.endswith("is set") else ConnectionError(problem)
    raise UserError(
        f"data set {HUB}{name} cannot be downloaded: {problem}, and it is not in the "
        f"cache; download it on a machine with a connection (hf download {repository} --repo-type "
        f"dataset --local-dir FOLDER) and give {HUB}FOLDER"
    ) from cause


def _shown(error: Exception) -> str:
    """The error in one line, without the user's token."""
    tokens = [os.environ.get(name, "") for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")]
    return printable(without_secrets(hidden(first_line(error)), filter(None, tokens)))


def _copy_of(name: str) -> Path:
    """Where the copy of this data set is, by the hub that it comes from."""
    whose = json.dumps([os.environ.get("HF_ENDPOINT", ""), name])
    return cached("datasets") / f"{hashlib.sha256(whose.encode()).hexdigest()[:32]}.jsonl"


def _keeping(
    copy: Path, read: Iterator[tuple[int, bounds.Read]]
) -> Iterator[tuple[int, bounds.Read]]:
    """The rows that are read, which are copied to a file next to `copy`. It takes the place of the
    copy when all are read. Where it cannot be written, nothing is kept.
    """
    part, left = copy.with_name(f".{copy.name}.{os.getpid()}.part"), bounds.MAX_FILE_BYTES
    try:
        copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        file = open(os.open(part, flags, 0o600), "wb")  # noqa: SIM115  closed below
    except OSError:
        yield from read
        return
    try:
        for place, row in read:
            # What is no JSON, such as an image, is nothing that a question has
            line = json.dumps(row, default=lambda _: None).encode() + b"\n"
            left -= len(line)
            if left >= 0:
                left = _written(file, line, left)
            yield place, row
        if left >= 0 and _written(file, b"", left) >= 0:
            with suppress(OSError):
                part.replace(copy)
    finally:
        with suppress(OSError):
            file.close()
        part.unlink(missing_ok=True)


def _written(file: BinaryIO, line: bytes, left: int) -> int:
    """Writes the line, or all that waits to be written. Returns `left`, or -1 where that failed."""
    try:
        if line:
            file.write(line)
        else:
            file.flush()
    except OSError:
        return -1
    return left


def _of_copy(copy: Path) -> Iterator[tuple[int, bounds.Read]]:
    with copy.open("rb") as file:
        for place, line in enumerate(file, 1):
            try:
                yield place, json.loads(line)
            except ValueError:
                yield place, bounds.NO_OBJECT
