"""Which device torch will take, and how much of its memory is free, before torch is loaded. The
programs of the drivers are scripts here: no card was asked.
"""

import json
import re
from pathlib import Path

import pytest
import torch

from swarm_node.common import card_memory, cards
from swarm_node.common.card_memory import GIB, MIB, Room, installed_torch, room_of
from swarm_node.common.cards import Build

CUDA_12, CUDA_13 = Build("2.11.0+cu126", "12.6"), Build("2.13.0", "13.0")
CPU, ROCM = Build("2.13.0+cpu", ""), Build("2.13.0+rocm7.0", "", hip=True)
RTX_3060 = "GPU-aaaa, 12288, 11500, 580.65.06, 8.6, NVIDIA GeForce RTX 3060"
T400 = "GPU-bbbb, 2048, 1900, 580.65.06, 7.5, NVIDIA T400"
RTX_4090 = "GPU-cccc, 24564, 23000, 580.65.06, 8.9, NVIDIA GeForce RTX 4090"
RADEON = {
    "VRAM Total Memory (B)": "17163091968",
    "VRAM Total Used Memory (B)": "1073741824",
    "Card Series": "Radeon RX 7800 XT",
}


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path) -> Path:
    """A machine without a card; programs are found in the returned folder alone."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    for module in (cards, card_memory):
        monkeypatch.setattr(module, "WSL_SMI", tmp_path / "wsl")
    monkeypatch.setattr(card_memory, "ROCM_SMI", tmp_path / "opt" / "rocm-smi")
    for variable in (*card_memory.HIDING_NVIDIA, *card_memory.HIDING_AMD):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def prints(folder: Path, name: str, text: str) -> None:
    """Makes a program that prints the text."""
    (folder / f"{name}.txt").write_text(text)
    file = folder / name
    file.write_text(f"#!/bin/sh\ncat {folder / name}.txt\n")
    file.chmod(0o700)


def smi(folder: Path, *lines: str) -> None:
    prints(folder, "nvidia-smi", "".join(f"{line}\n" for line in lines))


def test_a_machine_without_a_card_has_no_room() -> None:
    for device in ("auto", "cpu", "cuda", "mps"):
        assert room_of(device, CUDA_13) is None


def test_the_free_memory_of_a_card_is_what_its_driver_says(machine) -> None:
    smi(machine, RTX_3060)
    found = room_of("auto", CUDA_13)
    assert found == Room("NVIDIA GeForce RTX 3060", 11500 * MIB, 12288 * MIB, bfloat16=True)
    assert str(found) == "NVIDIA GeForce RTX 3060 with 11.2 of 12.0 GiB free"
    assert room_of("cuda:0", CUDA_13) == found
    assert room_of("cpu", CUDA_13) is None


@pytest.mark.parametrize("build", [CPU, ROCM, Build("", "")])
def test_a_card_that_this_build_of_torch_cannot_use_gives_no_room(machine, build) -> None:
    smi(machine, RTX_3060)
    assert room_of("auto", build) is None


def test_a_driver_that_is_too_old_for_the_build_gives_no_room(machine) -> None:
    smi(machine, RTX_3060.replace("580.65.06", "560.94"))
    assert room_of("auto", CUDA_13) is None
    assert room_of("auto", CUDA_12) is not None


def test_a_generation_for_which_the_build_has_no_kernels_gives_no_room(machine) -> None:
    smi(machine, "GPU-a, 11264, 11000, 580.65.06, 6.1, NVIDIA GeForce GTX 1080 Ti")
    assert room_of("auto", CUDA_13) is None
    found = room_of("auto", CUDA_12)
    assert found is not None and not found.bfloat16


def test_a_card_before_ampere_computes_in_float32(machine) -> None:
    smi(machine, "GPU-a, 15360, 14900, 580.65.06, 7.5, Tesla T4")
    found = room_of("auto", CUDA_13)
    assert found is not None and not found.bfloat16


def test_a_program_that_knows_no_compute_capability_is_asked_without_it(machine) -> None:
    file = machine / "nvidia-smi"
    row = "GPU-a, 12288, 11500, 525.60, NVIDIA GeForce RTX 3060"
    file.write_text(f'#!/bin/sh\ncase "$*" in *compute_cap*) exit 2;; esac\necho "{row}"\n')
    file.chmod(0o700)
    found = room_of("auto", CUDA_12)
    assert found is not None and not found.bfloat16 and found.free == 11500 * MIB


def test_the_card_with_the_least_free_memory_counts_and_a_tiny_one_beside_it_does_not(
    machine,
) -> None:
    smi(machine, T400, RTX_4090, RTX_3060)
    found = room_of("auto", CUDA_13)
    assert found is not None and found.name == "NVIDIA GeForce RTX 3060"
    smi(machine, T400)
    found = room_of("auto", CUDA_13)
    assert found is not None and found.name == "NVIDIA T400"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("1", "NVIDIA GeForce RTX 4090"),
        ("1,0", "NVIDIA GeForce RTX 3060"),
        ("GPU-cc", "NVIDIA GeForce RTX 4090"),
        ("1,GPU-zz,0", "NVIDIA GeForce RTX 4090"),
        ("", ""),
        ("-1", ""),
        ("NoDevFiles", ""),
        ("7", ""),
        ("GPU-", ""),
        ("MIG-1234", ""),
        ("²", ""),
        ("9" * 5000, ""),
    ],
)
def test_cards_that_a_variable_hides_do_not_count(machine, monkeypatch, variable, name) -> None:
    smi(machine, RTX_3060, RTX_4090)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    found = room_of("auto", CUDA_13)
    assert (found.name if found else "") == name


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no devices were found",
        "GPU-a, [N/A], [N/A], 580.1, 8.6, GB10",
        "GPU-a, -5, 7, 580.1, 8.6, a card",
        "GPU-a, 1e9, 7, 580.1, 8.6, a card",
        "GPU-a, ١٢٣, 7, 580.1, 8.6, a card",
        f"GPU-a, {'9' * 17}, 7, 580.1, 8.6, a card",
        f"GPU-a, {'9' * 4000}, 7, 580.1, 8.6, a card",
        "GPU-a, 12288, 11500, 580.1, 8.6",
    ],
)
def test_words_in_place_of_memory_are_no_room(machine, line) -> None:
    smi(machine, line)
    assert room_of("auto", CUDA_13) is None


def test_numbers_that_make_no_sense_are_bounded_and_names_control_no_terminal(machine) -> None:
    smi(machine, "GPU-a, 8192, 999999, x.y, nan, evil\033[2J, the name of a card")
    found = room_of("auto", CUDA_13)
    assert found is not None and found.free == found.total == 8 * GIB
    assert not found.bfloat16 and "\033" not in found.name and ", the name" in found.name


def test_a_card_of_amd_is_asked_by_its_own_program(machine) -> None:
    small = {"VRAM Total Memory (B)": "536870912", "VRAM Total Used Memory (B)": "482263040"}
    prints(machine, "rocm-smi", json.dumps({"card0": RADEON, "card1": small, "system": {}}))
    found = room_of("auto", ROCM)
    assert found == Room("Radeon RX 7800 XT", 16089350144.0, 17163091968.0, bfloat16=True)
    assert room_of("auto", CUDA_13) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "[" * 100_000,
        '{"card0": 5, "card1": {"VRAM Total Memory (B)": "many"}, "card": {}}',
        '{"card0": {"VRAM Total Memory (B)": [1, 2]}}',
        '{"card0": {"VRAM Total Memory (B)": "1e30"}}',
    ],
)
def test_an_answer_of_another_shape_is_no_card_of_amd(machine, text) -> None:
    prints(machine, "rocm-smi", text)
    assert room_of("auto", ROCM) is None


def test_a_mac_lends_its_gpu_a_share_of_its_memory_where_that_is_asked_for(monkeypatch) -> None:
    monkeypatch.setattr(card_memory.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(card_memory.platform, "machine", lambda: "arm64")
    monkeypatch.setattr(card_memory.memory, "total", lambda: 24 * GIB)
    monkeypatch.setattr(card_memory.memory, "available", lambda: 20 * GIB)
    found = room_of("mps", CPU)
    assert found is not None and found.shared and not found.bfloat16
    assert found.free == pytest.approx(16 * GIB)
    assert room_of("auto", CPU) is None  # trains on the processor


def test_the_installed_torch_is_read_as_it_says_itself() -> None:
    """The file, without loading it, beside the module."""
    assert installed_torch() == Build(
        torch.__version__, torch.version.cuda or "", bool(torch.version.hip)
    )


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n", True),
        ("__version__ = '2.13.0+cu130'\ncuda = '13.0'\n", True),
        ("__version__ = '2.13.0'\ncuda: Optional[str] = None\n", False),
        ("\0\xff nonsense", False),
        ("", False),
    ],
)
def test_other_spellings_of_that_file_are_read_too(tmp_path, monkeypatch, text, build) -> None:
    (tmp_path / "version.py").write_text(text, encoding="latin-1")

    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr(card_memory, "find_spec", lambda name: Found())
    assert bool(re.fullmatch(r"13\.0", installed_torch().cuda)) is build
