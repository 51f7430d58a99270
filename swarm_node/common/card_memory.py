"""The device that torch will train on, and its free memory, found out before torch is loaded.

A first run chooses its model by that memory, and loading torch takes most of a start. So the
programs of the drivers are asked: `nvidia-smi` of NVIDIA, `rocm-smi` of AMD. On Apple's machines
the GPU uses the memory of the machine. What torch itself can use stands in its `version.py`, which
is read as a text: a build for CPUs trains on the CPU, whatever card is there, and a build for CUDA
needs a driver that is new enough.

Where there are several cards, the model has to fit whichever of them torch takes, so the one with
the least free memory counts. A card that is too small to train on at all, as the graphics of a
processor are, is skipped if there is a larger one.

Nothing here was run on a card of AMD or on a machine of Apple. The output of both is read as the
documentation of their programs shows it.
"""

import os
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from swarm_node.common import memory
from swarm_node.common.asked import installed, said
from swarm_node.common.cards import (
    LEAST_DRIVER,
    OLDEST_13,
    SMI_SECONDS,
    WSL_SMI,
    Build,
    major,
)
from swarm_node.common.errors import printable
from swarm_node.common.parsing import parse_json

MIB, GIB = 2**20, 2**30
AMPERE = 8.0  # compute capability of the first cards of NVIDIA that multiply bfloat16
SMALLEST = 4 * GIB  # of a card that counts beside a larger one
MOST = 1 << 50  # bytes; a program that says more is not believed
VERSION_BYTES = 1 << 16  # of torch's version.py, read at most
ROCM_SMI = Path("/opt/rocm/bin/rocm-smi")  # not in the PATH of every shell
NVIDIA_FIELDS = ("uuid", "memory.total", "memory.free", "driver_version", "compute_cap", "name")
# Share of a machine's memory that Apple's Metal lets a GPU take, where there are 36 GB or less
METAL = 2 / 3
# What the user may set so that torch sees fewer cards
HIDING_NVIDIA = ("CUDA_VISIBLE_DEVICES",)
HIDING_AMD = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
_LITERAL = r"^{} *(?:: *[\w\[\]. ]+)? *= *'([^'\n]*)'"


@dataclass(frozen=True, slots=True)
class Room:
    """The device to train on, and its memory in bytes."""

    name: str
    free: float
    total: float
    bfloat16: bool  # whether it multiplies bfloat16; else weights and products are float32
    shared: bool = False  # with the processor: what the model takes is taken from both

    def __str__(self) -> str:
        return f"{self.name} with {self.free / GIB:.1f} of {self.total / GIB:.1f} GiB free"


def room_of(device: str, build: Build | None = None) -> Room | None:
    """The room on the device that `model.device` leads to. None for a CPU, and for a card whose
    memory nobody tells. `build`: of torch, as installed if not given.
    """
    build = installed_torch() if build is None else build
    if device == "mps":
        return _of_apple()
    if device != "auto" and not device.startswith("cuda"):
        return None
    if build.hip:
        return _least(_visible(_of_amd(), HIDING_AMD))
    return _least(_visible(_of_nvidia(build), HIDING_NVIDIA))


def installed_torch() -> Build:
    """What the installed torch says of itself, without loading it."""
    text = ""
    with suppress(ImportError, ValueError, OSError):
        found = find_spec("torch")
        for folder in (found and found.submodule_search_locations) or ():
            with (Path(folder) / "version.py").open("rb") as content:
                text = content.read(VERSION_BYTES).decode(errors="replace")

    def literal(name: str) -> str:
        match = re.search(_LITERAL.format(name), text, re.MULTILINE)
        return match[1] if match else ""

    return Build(literal("__version__"), literal("cuda"), bool(literal("hip")))


def _least(rooms: Sequence[Room]) -> Room | None:
    large = [room for room in rooms if room.total >= SMALLEST] or rooms
    return min(large, key=lambda room: room.free, default=None)


def _visible(cards: Sequence[tuple[str, Room | None]], variables: Sequence[str]) -> list[Room]:
    """The rooms of the cards that these variables leave, by number or UUID, as CUDA reads them: up
    to the first word that is neither. None stands for a card that torch cannot use.
    """
    rooms = [room for _, room in cards]
    for variable in variables:
        if (text := os.environ.get(variable)) is not None:
            chosen = []
            for word in text.split(","):
                number = _number_of(word.strip(), cards)
                if number is None:
                    break
                chosen.append(rooms[number])
            return [room for room in chosen if room]
    return [room for room in rooms if room]


def _number_of(word: str, cards: Sequence[tuple[str, Room | None]]) -> int | None:
    if word.isascii() and word.isdigit():
        return int(word) if len(word) < 4 and int(word) < len(cards) else None
    uuids = [uuid for uuid, _ in cards]
    named = [number for number, uuid in enumerate(uuids) if word and uuid.startswith(word)]
    return named[0] if len(named) == 1 else None


def _of_nvidia(build: Build) -> list[tuple[str, Room | None]]:
    """UUID and room of each card of NVIDIA."""
    program = installed("nvidia-smi", WSL_SMI) if build.cuda else ""
    if not program:
        return []
    without = tuple(field for field in NVIDIA_FIELDS if field != "compute_cap")
    for fields in (NVIDIA_FIELDS, without):  # older drivers: the second
        query = f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"
        if text := said(program, query, SMI_SECONDS):
            rows = (_row(line, fields) for line in text.splitlines())
            return [(row["uuid"], _nvidia_room(row, build)) for row in rows if row]
    return []


def _row(line: str, fields: Sequence[str]) -> dict[str, str]:
    """The words of a line by field; empty where it has too few. The name, which may have commas,
    is the last.
    """
    words = [printable(word.strip()) for word in line.split(",", len(fields) - 1)]
    if len(words) != len(fields):
        return {}
    return dict(zip(fields, words, strict=True))


def _nvidia_room(row: Mapping[str, str], build: Build) -> Room | None:
    """The room of a card; None where torch cannot use it, or its memory is not told."""
    total, free = _bytes(row["memory.total"], MIB), _bytes(row["memory.free"], MIB)
    text = row.get("compute_cap", "")
    capability = float(text) if re.fullmatch(r"\d{1,2}\.\d", text, re.ASCII) else 0.0
    cuda, driver = major(build.cuda), major(row["driver_version"])
    too_old = 0 < driver < LEAST_DRIVER.get(cuda, 0)
    has_no_kernels = cuda >= max(LEAST_DRIVER) and 0 < capability < OLDEST_13
    if not total or too_old or has_no_kernels:
        return None
    return Room(row["name"], min(free, total), total, capability >= AMPERE)


def _of_amd() -> list[tuple[str, Room | None]]:
    """Name and room of each card of AMD."""
    program = installed("rocm-smi", ROCM_SMI)
    if not program:
        return []
    text = said(program, ["--showproductname", "--showmeminfo", "vram", "--json"], SMI_SECONDS)
    try:
        cards = parse_json(text)
    except ValueError:
        return []
    return [*_amd_rooms(cards)] if isinstance(cards, dict) else []


def _amd_rooms(cards: Mapping[str, Any]) -> Iterator[tuple[str, Room | None]]:
    for key, about in cards.items():
        if re.fullmatch(r"card\d{1,3}", key, re.ASCII) and isinstance(about, dict):
            values = {str(name).casefold(): str(value) for name, value in about.items()}
            total = _bytes(values.get("vram total memory (b)", ""))
            used = _bytes(values.get("vram total used memory (b)", ""))
            name = printable(values.get("card series", "") or "a card of AMD")
            # The loader takes bfloat16 on each card of AMD
            room = Room(name, max(0.0, total - used), total, bfloat16=True)
            yield key, room if total else None


def _of_apple() -> Room | None:
    if platform.system() != "Darwin" or platform.machine() != "arm64":
        return None
    total = float(memory.total())
    free = min(float(memory.available()), total * METAL)
    return Room("the GPU of this Mac", free, total, bfloat16=False, shared=True)


def _bytes(text: str, unit: int = 1) -> float:
    """A number of these units in bytes; 0 where the text is not a number, or a number of no
    card.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        return 0.0
    size = float(text) * unit
    return size if size <= MOST else 0.0
