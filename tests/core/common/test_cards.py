"""Cards are found by the driver's own program or files, and a card that torch cannot use is told
with a remedy that is right for this build, this driver and this card.
"""

import re

import pytest

from swarm_node.common import cards as module
from swarm_node.common.cards import Build, Gpu, cards, install, why_not

CUDA_13, CPU = Build("2.13.0+cu130", "13.0"), Build("2.13.0+cpu", "")


def program(folder, script: str) -> None:
    file = folder / "nvidia-smi"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o700)


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    """A machine without a card; programs are found in the returned folder alone."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setattr(module, "DRIVER_FILES", tmp_path / "proc")
    monkeypatch.setattr(module, "WSL_SMI", tmp_path / "wsl" / "nvidia-smi")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path


def test_a_machine_without_a_card_has_none_and_nothing_to_say() -> None:
    assert cards() == [] and why_not([], CUDA_13) == ""


def test_the_drivers_program_names_cards_and_driver(machine) -> None:
    program(machine, "echo 'NVIDIA GeForce RTX 3060, 550.54.14, 8.6'")
    assert cards() == [Gpu("NVIDIA GeForce RTX 3060", "550.54.14", 8.6)]


def test_a_program_that_knows_no_compute_capability_is_asked_without_it(machine) -> None:
    program(machine, 'case "$*" in *compute_cap*) exit 2;; esac; echo "Tesla K80, 470.10"')
    assert cards() == [Gpu("Tesla K80", "470.10")]


def test_in_wsl_the_program_lies_outside_the_path(machine) -> None:
    (machine / "wsl").mkdir()
    program(machine / "wsl", "echo 'NVIDIA GeForce RTX 4070, 560.94, 8.9'")
    assert cards() == [Gpu("NVIDIA GeForce RTX 4070", "560.94", 8.9)]


def test_without_the_program_the_drivers_files_are_read(machine) -> None:
    folder = machine / "proc" / "gpus" / "0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "information").write_text("Model: \t NVIDIA GeForce RTX 3060\nIRQ: 5\n")
    (machine / "proc" / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22\nGCC version: 12\n"
    )
    assert cards() == [Gpu("NVIDIA GeForce RTX 3060", "550.54.14")]


def test_what_the_program_prints_cannot_control_a_terminal(machine) -> None:
    program(machine, r"printf 'evil\033[2J, 550.1, 8.6\n'")
    assert "\033" not in cards()[0].name


@pytest.mark.parametrize(
    ("card", "build", "wanted"),
    [
        # The build has no CUDA: the wheel that the driver can run
        (Gpu("RTX 3060", "550.54", 8.6), CPU, "without CUDA: pip install .*whl/cu126"),
        (Gpu("RTX 5070", "570.86", 12.0), CPU, "without CUDA: pip install .*whl/cu128"),
        (Gpu("RTX 3060", "580.65", 8.6), CPU, "without CUDA: pip install .*whl/cu130"),
        (Gpu("GTX 1080", "580.65", 6.1), CPU, "without CUDA: pip install .*whl/cu126"),
        # The driver is too old for the build: a CUDA build of torch is there already
        (Gpu("RTX 3060", "550.54", 8.6), CUDA_13, "needs driver 580 or newer.* or: pip .*cu126"),
        (Gpu("Tesla K80", "470.10"), CUDA_13, "needs driver 580 or newer: install that driver$"),
        # Neither
        (Gpu("RTX 3060", "580.65", 8.6), CUDA_13, "--gpus all"),
    ],
)  # fmt: skip
def test_the_remedy_is_right_for_build_driver_and_card(card, build, wanted) -> None:
    line = why_not([card], build)
    assert re.search(wanted, line) and card.name in line and "\n" not in line


def test_a_variable_that_hides_the_card_is_named(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "unset CUDA_VISIBLE_DEVICES" in why_not([Gpu("RTX 3060", "580.65", 8.6)], CUDA_13)


def test_a_build_for_cards_of_amd_is_left_in_peace() -> None:
    assert why_not([Gpu("RTX 3060", "580.65")], Build("2.13.0+rocm7", "", hip=True)) == ""


def test_a_card_whose_driver_is_not_known_gets_the_newest_wheel() -> None:
    assert install(Gpu("some card")).endswith("/cu130")
