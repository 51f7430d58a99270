"""The process that loads a tokenizer of a model folder, and tries it on texts: tokenizer_trial.py
says why, and starts it.

It is for a folder whose tokenizer is not a tokenizer.json (a sentencepiece model, vocab.json with
merges.txt), or is a class of transformers in Python. Only transformers can load those, out of
files. So this process gives up its rights in two steps:

1. All but reading the folder and the libraries: no socket, no other process, no file that is
   written, nothing else of the user. Then it loads the tokenizer, and gives it one short text, so
   that all libraries that it needs are loaded.
2. The rest, as every process of confined.py. Then it answers as tokenizer_child.py does.

Where it fails at a text, it says so, and the node leaves the text out: what it may not do, the node
does not do either.
"""

import os
import resource
import site
import sys
import sysconfig
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from swarm_node.common import linux
from swarm_node.common.errors import first_line
from swarm_node.policy.confined import READY, answer
from swarm_node.policy.tokenizer_child import (
    LIFE_SECONDS,
    MADE,
    MADE_EACH,
    MEMORY,
    TooMuch,
    in_time,
)
from swarm_node.scoring.confinement import confine, silence
from swarm_node.scoring.contract import Reader
from swarm_node.scoring.sandbox import ALLOWED, LAST_WRITABLE, Sandbox

LOAD_SECONDS = 20  # of CPU time
# CPU seconds for each character or id: Python takes longer than Rust
ALLOWED_EACH = 2e-4
# Calls beside those of the sandbox: to read files and folders, and to take the second step
READING: dict[str, dict[str, int]] = {
    "x86_64": {
        "open": 2, "stat": 4, "lstat": 6, "ioctl": 16, "pread64": 17, "access": 21, "uname": 63,
        "fcntl": 72, "getcwd": 79, "readlink": 89, "getrlimit": 97, "sysinfo": 99, "getuid": 102,
        "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "prctl": 157,
        "setrlimit": 160, "sched_getaffinity": 204, "getdents64": 217, "openat": 257,
        "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "prlimit64": 302, "statx": 332,
        "close_range": 436, "faccessat2": 439, "landlock_restrict_self": 446,
    },
    "aarch64": {
        "getcwd": 17, "fcntl": 25, "ioctl": 29, "faccessat": 48, "openat": 56, "getdents64": 61,
        "pread64": 67, "readlinkat": 78, "newfstatat": 79, "sched_getaffinity": 123, "uname": 160,
        "getrlimit": 163, "setrlimit": 164, "prctl": 167, "getppid": 173, "getuid": 174,
        "geteuid": 175, "getgid": 176, "getegid": 177, "sysinfo": 179, "prlimit64": 261,
        "statx": 291, "close_range": 436, "faccessat2": 439, "landlock_restrict_self": 446,
    },
}  # fmt: skip


def program(machine: str) -> list[linux.Instruction]:
    """The filter of the first step: these calls, and no other."""
    code = linux.beginning(linux.AUDIT[machine])
    for number in (*ALLOWED[machine].values(), *READING[machine].values()):
        code += [(linux.EQUAL, 0, 1, number), linux.TO_ALLOW]
    return [*code, linux.TO_REFUSE]


def readable(folder: Path) -> dict[Path, int]:
    """What may be read in the first step: this folder and the libraries."""
    places = {*sysconfig.get_paths().values(), *site.getsitepackages(), *sys.path, sys.prefix}
    places |= {
        sys.base_prefix,
        str(Path(__file__).parents[1]),
        "/lib",
        "/lib64",
        "/usr/lib",
        "/usr/lib64",
        "/etc/ld.so.cache",
    }
    # Of a hub model, the names in its folder lead to files of a folder beside it
    real = {file.resolve() for file in folder.iterdir() if file.is_file()}
    found = {Path(place) for place in places if place} | {folder, folder.resolve()} | real
    return dict.fromkeys(found, linux.READ)


def only_read(folder: Path) -> None:
    """The first step, where the system has it. Raises OSError."""
    os.closerange(LAST_WRITABLE + 1, 32)
    if sys.platform != "linux":
        return
    linux.no_new_privileges()
    if (rules := linux.ruleset(readable(folder), tcp=False)) >= 0:
        linux.restrict(rules)
        os.close(rules)
    if found := linux.filter_here(program):
        found.install()


def limit_memory() -> None:
    """Lets this process take `MEMORY` bytes more than the libraries have."""
    with suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _loaded(folder: str) -> Any:
    """The tokenizer, after one text."""
    from transformers import AutoTokenizer  # loaded before the first step

    used = int(time.process_time())
    with suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (used + 1 + LOAD_SECONDS, hard))
    tokenizer = AutoTokenizer.from_pretrained(
        folder, trust_remote_code=False, local_files_only=True
    )
    with suppress(Exception):
        _written(tokenizer, tokenizer("a 1", add_special_tokens=False).input_ids)
    return tokenizer


def _encoded(tokenizer: Any, asked: dict[str, Any]) -> None:
    text = asked["text"]
    options = {"add_special_tokens": asked["special"], "split_special_tokens": asked["split"]}
    compute = partial(_ids, tokenizer, text, options)
    made = in_time(len(text), "characters", compute, ALLOWED_EACH)
    if made > MADE + MADE_EACH * len(text):
        raise TooMuch(f"makes {made:,} tokens of {len(text):,} characters")


def _ids(tokenizer: Any, text: str, options: dict[str, bool]) -> int:
    return len(tokenizer(text, **options).input_ids)


def _decoded(tokenizer: Any, asked: dict[str, Any]) -> None:
    for ids in asked["ids"]:
        made = in_time(len(ids), "tokens", partial(_written, tokenizer, ids), ALLOWED_EACH)
        if made > MADE + 64 * MADE_EACH * len(ids):
            raise TooMuch(f"makes {made:,} characters of {len(ids):,} tokens")


def _written(tokenizer: Any, ids: list[int]) -> int:
    text = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return len(text)


def _answered(tokenizer: Any, asked: dict[str, Any]) -> dict[str, Any]:
    try:
        if "text" in asked:
            _encoded(tokenizer, asked)
        if "ids" in asked:
            _decoded(tokenizer, asked)
    except TooMuch as error:
        return {"said": str(error)}
    except MemoryError:
        os._exit(1)  # nothing can be relied on any more
    except BaseException as error:  # noqa: BLE001  (panics of Rust are no Exception)
        return {"failed": first_line(error, 200)}
    return {}


def serve(parent: int, connection: int) -> None:
    """Reads the name of a folder, loads its tokenizer, then reads texts and ids."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    import transformers.models.auto.tokenization_auto  # noqa: F401  (slow)

    confine(resource.RLIM_INFINITY)
    silence()
    sandbox = Sandbox()
    os.dup2(connection, LAST_WRITABLE)
    reader = Reader(partial(os.read, LAST_WRITABLE))
    answer(READY)
    folder = str(reader.read())
    limit_memory()
    only_read(Path(folder))
    # The question that the load answers
    reader.read()
    try:
        tokenizer = _loaded(folder)
    except MemoryError:
        os._exit(1)
    except BaseException as error:  # noqa: BLE001  (as above)
        answer({"said": f"cannot be loaded: {first_line(error, 200)}", "cpu": time.process_time()})
        return
    sandbox.enter(parent, LIFE_SECONDS)
    answer({"said": "", "cpu": time.process_time(), "size": len(tokenizer)})
    while (asked := reader.read()) is not None:
        answer({"said": "", **_answered(tokenizer, asked), "cpu": time.process_time()})


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
