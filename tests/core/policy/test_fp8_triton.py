"""The Triton kernels without a device: in Triton's interpreter, and compiled to machine code for 3
architectures.
"""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton", reason="Triton is for Linux on x86_64 alone")
from torch import nn
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from swarm_node.policy.fp8 import kernels, triton_kernels
from swarm_node.policy.fp8.linear import Fp8Linear

KERNEL = kernels.TRITON
logger = logging.getLogger(__name__)
MULTIPLY = r"(?:wgmma\.mma_async|mma)\.sync\.\S+"
# Bytes of shared memory that a block can have on Ada and on consumer Blackwell
CONSUMER = 99 * 1024


@pytest.mark.slow
def test_they_give_what_the_reference_gives_in_the_interpreter() -> None:
    """In a process of its own, as the interpreter must be asked for before Triton is imported."""
    tests = Path(__file__).with_name("triton_interpreted.py")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        str(tests),
    ]
    done = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "100%" in done.stdout


class Absent:
    """A driver without a device: what Triton asks before it compiles. The number of a device is its
    architecture.
    """

    def __init__(self, architecture: int) -> None:
        self.architecture = architecture

    def get_current_device(self) -> int:
        return self.architecture

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.architecture, 32)


@pytest.fixture(params=[89, 90, 120], ids=["Ada", "Hopper", "consumer Blackwell"])
def compiled(request, monkeypatch, tmp_path):
    """Architecture, and a list that gets the machine code of every kernel instead of a device."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    # Triton 3.9 warns while it is unset, and does this
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    made = []

    def compile_only(kernel):
        launch = kernel.run
        monkeypatch.setattr(
            kernel, "run", lambda *a, warmup, **k: made.append(launch(*a, warmup=True, **k))
        )

    compile_only(triton_kernels.quantise_kernel)
    compile_only(triton_kernels.product_kernel)
    driver.set_active(Absent(request.param))
    yield request.param, made
    driver._active = None


def resources(kernel, folder: Path) -> tuple[int, int]:
    """Registers of a thread, and bytes spilled because they did not fit into registers."""
    binary = folder / "kernel.cubin"
    binary.write_bytes(kernel.asm["cubin"])
    tool = triton.knobs.nvidia.cuobjdump.path
    told = subprocess.run(
        [tool, "--dump-resource-usage", binary], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", told)
    assert found is not None
    return int(found[1]), int(found[2])


@pytest.mark.slow
def test_what_training_and_writing_launch_compiles_for_tensor_cores_of_e4m3(
    compiled, tmp_path
) -> None:
    """A training step with tokens that fill no tile, then the forward products of generation.
    Figures are logged.
    """
    architecture, made = compiled
    layer = Fp8Linear(nn.Linear(256, 384, dtype=torch.bfloat16), KERNEL, active=True)
    layer(torch.ones(300, 256, dtype=torch.bfloat16, requires_grad=True)).backward(
        torch.ones(300, 384).bfloat16()
    )
    with torch.no_grad():
        for batch in (64, 1):
            layer(torch.ones(batch, 256, dtype=torch.bfloat16))
    names = [kernel.metadata.name for kernel in made]
    assert (names.count("quantise_kernel"), names.count("product_kernel")) == (7, 5)
    for kernel in dict.fromkeys(made):
        (registers, spilled), instructions = (
            resources(kernel, tmp_path),
            set(re.findall(MULTIPLY, kernel.asm["ptx"])),
        )
        figures = f"{registers} registers, {spilled} B spilled, {kernel.metadata.shared} B shared"
        logger.info(
            "sm_%d %s: %s %s", architecture, kernel.metadata.name, figures, " ".join(instructions)
        )
        assert kernel.metadata.shared <= CONSUMER
        assert spilled <= 16
        assert ".ftz" not in kernel.asm["ptx"]  # no flush of the smallest numbers to zero
        if kernel.metadata.name == "product_kernel":
            few = architecture == 90 and kernel is made[-1]  # wgmma takes at least 64 rows
            assert instructions and all(
                ("f16.f16" if few else "e4m3.e4m3") in used for used in instructions
            )
