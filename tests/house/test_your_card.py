"""The page *Your card* says of each configuration for a card what the configuration says itself,
and of each card and system who has run it.
"""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "your_card.md"
CONFIGS = sorted((ROOT / "configs").glob("*_*gb.toml"))
ROUNDS = 20


def row_of(config: Path) -> list[str]:
    """The cells of the row that names the configuration."""
    (line,) = [line for line in PAGE.read_text().splitlines() if f"| `{config.name}` |" in line]
    return [cell.strip() for cell in line.strip("|").split("|")]


def text(config: Path, pattern: str) -> str:
    """What the first lines of a configuration say."""
    found = re.search(pattern, config.read_text())
    assert found, f"{config.name} does not say {pattern}"
    return found[1]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.stem)
def test_a_row_has_the_model_the_memory_and_the_minutes_of_its_configuration(config: Path) -> None:
    _, _, model, memory, minutes, ran = row_of(config)
    values = tomllib.loads(config.read_text())
    name = values["model"]["name"].removeprefix("Qwen/").split("-Instruct")[0]
    assert name in model and model.startswith("adapters") == ("lora_rank" in values["model"])
    assert ("AdamW in 8 bits" in model) == (values["training"].get("optimizer") == "adamw_8bit")
    assert memory == text(config, r"Memory by plan: ([\d.]+ GiB)")
    seconds = int(text(config, r"predicted: (\d+) s a"))
    card = text(config, r"on an (RTX [\w ]+)\.")
    assert minutes == f"{round(ROUNDS * seconds / 60)} minutes, {card}"
    # Who runs one writes it into both
    assert (ran == "never run") == ("Nobody has run it on a card yet" in config.read_text())


def test_every_card_and_system_says_who_ran_it() -> None:
    tables = re.findall(r"^\|.*who ran it \|\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE.read_text(), re.M)
    assert len(tables) == 2
    lines = [line for table in tables for line in table.splitlines()]
    assert len(lines) > len(CONFIGS) + 8
    assert [line for line in lines if not line.strip("| ").split("|")[-1].strip()] == []


@pytest.mark.parametrize("system", ["Turing", "AMD", "Apple", "WSL2", "two cards"])
def test_what_nobody_ran_is_said_plainly(system: str) -> None:
    (line,) = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("|") and system in line.split("|")[1] and "without WSL2" not in line
    ]
    assert "never run" in line.split("|")[-2]
