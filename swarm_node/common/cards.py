"""The graphics cards of this machine as their driver names them, and why torch cannot use them.

Nothing here loads torch. NVIDIA's own program `nvidia-smi` comes with every driver, also in WSL2,
where the kernel's files of the driver do not exist. Where that program is missing, as in some
containers, these files are read.

A build of torch needs a driver that is new enough for its CUDA
(https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/, "minimum required driver version"), and
has kernels for some generations of cards only. torch says nothing when the driver is older:
`torch.cuda.is_available()` is just false.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarm_node.common.asked import installed, said
from swarm_node.common.errors import printable

FIELDS = ("name,driver_version,compute_cap", "name,driver_version")  # older drivers: the second
SMI_SECONDS = 10.0  # that nvidia-smi may take: it wakes a sleeping card
WSL_SMI = Path("/usr/lib/wsl/lib/nvidia-smi")  # not in the PATH of every shell there
DRIVER_FILES = Path("/proc/driver/nvidia")
# The least driver for each major version of CUDA
LEAST_DRIVER = {11: 450, 12: 525, 13: 580}
WHEELS = "https://download.pytorch.org/whl"
OLDEST_13, NEWEST_126 = 7.5, 9.0  # compute capabilities: the oldest of CUDA 13's, cu126's newest
# What the user may set so that torch sees fewer cards
HIDING = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Gpu:
    """A graphics card of NVIDIA."""

    name: str
    driver: str = ""  # its version, such as 550.54.14; "" where it is not known
    capability: float = 0.0  # compute capability, such as 8.6; 0 where it is not known


@dataclass(frozen=True, slots=True)
class Build:
    """What a build of torch says of itself."""

    version: str
    cuda: str  # the version of CUDA that it was built for; "" for none
    hip: bool = False  # whether it is built for cards of AMD


def cards() -> list[Gpu]:
    """The cards of NVIDIA in this machine, whether torch can use them or not."""
    return _asked() or [*_of_files(DRIVER_FILES)]


def why_not(present: Sequence[Gpu], build: Build) -> str:
    """Why this build of torch cannot use these cards, and what to do about it, in one line; "" if
    there is no card. For a process in which torch finds none.
    """
    if not present or build.hip:
        return ""
    card, driver = present[0], major(present[0].driver)
    named = f"{card.name} with driver {card.driver}" if card.driver else card.name
    found = f"{named} is here, but torch {build.version}"
    if not build.cuda:
        return f"{found} is a build without CUDA: {install(card)}"
    least = LEAST_DRIVER.get(major(build.cuda), 0)
    if driver and driver < least:
        other = f", or: {install(card)}" if driver >= LEAST_DRIVER[12] else ""
        return (
            f"{found} for CUDA {build.cuda} needs driver {least} or newer: install that driver"
            f"{other}"
        )
    if os.environ.get(HIDING, "0") in ("", "-1", "NoDevFiles"):
        return f"{found} may not use it: unset {HIDING}"
    return (
        f"{found} for CUDA {build.cuda} cannot use it: start a container with --gpus all; else "
        "restart the machine, which an update of the driver needs"
    )


def install(card: Gpu) -> str:
    """The command that installs a torch which this card and its driver can run."""
    driver, wheel = major(card.driver), "cu130"
    if 0 < card.capability < OLDEST_13:
        wheel = "cu126"
    elif 0 < driver < LEAST_DRIVER[13]:
        wheel = "cu128" if card.capability > NEWEST_126 else "cu126"
    return f"pip install --force-reinstall torch --index-url {WHEELS}/{wheel}"


def major(version: str) -> int:
    """The first number of a version; 0 where there is none."""
    number = version.partition(".")[0]
    is_number = number.isascii() and number.isdigit() and len(number) < 6
    return int(number) if is_number else 0


def _asked() -> list[Gpu]:
    """The cards that NVIDIA's program lists; none where it is missing or fails."""
    program = installed("nvidia-smi", WSL_SMI)
    for fields in FIELDS if program else ():
        query = f"--query-gpu={fields}", "--format=csv,noheader"
        if text := said(program, query, SMI_SECONDS):
            return [_gpu_in(line) for line in text.splitlines() if "," in line]
    return []


def _gpu_in(line: str) -> Gpu:
    """The GPU in a line that nvidia-smi prints. Its words are made printable."""
    words = [word.strip() for word in line.split(",")]
    name, driver, capability = (*words, "")[:3]
    is_number = capability.isascii() and capability.replace(".", "", 1).isdigit()
    number = float(capability) if is_number else 0.0
    return Gpu(printable(name), printable(driver), number)


def _of_files(folder: Path) -> Iterator[Gpu]:
    """The cards that the driver's files list."""
    driver = ""
    with suppress(OSError):
        words = (folder / "version").read_text().partition("\n")[0].split()
        driver = next((word for word in words if word.replace(".", "").isdigit()), "")
    for path in sorted(folder.glob("gpus/*/information")):
        with suppress(OSError):
            for line in path.read_text().splitlines():
                if line.startswith("Model:"):
                    yield Gpu(printable(line.partition(":")[2].strip()), driver)
