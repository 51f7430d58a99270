"""Which model a graphics card gets: its memory by the plan, its licence, its commit, and what is
asked before it is downloaded.
"""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from lab.benchmarks.shapes import shapes
from swarm_node.common.card_memory import GIB, Room
from swarm_node.common.errors import UserError
from swarm_node.node.defaults import suited
from swarm_node.policy import by_card, named
from swarm_node.policy.by_card import CHOICES, ModelForCard, choice_of, chosen, getting, line
from swarm_node.policy.memory_plan import parameters_of, plan_of
from swarm_node.settings import NodeConfig

# Of a micro-batch: a whole group, eight completions of 256 tokens with their prompt, has room in it
TOKENS = 4096
CARD = Room("a card", 11 * GIB, 12 * GIB, bfloat16=True)
OLD = replace(CARD, bfloat16=False)


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path) -> None:
    """A machine with much memory, an empty cache of the hub, and a hub that answers."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setattr(named, "unreachable", lambda name, revision="", kind="": "")
    monkeypatch.setattr(by_card.memory, "available", lambda: 64 * GIB)
    monkeypatch.setattr(by_card, "_free_disk", lambda place: 1e12)


def keep(choice: ModelForCard, *files: str) -> Path:
    """Lays files of this model into the cache of the hub's library."""
    folder = named.cache_of_hub() / f"models--{choice.model.name.replace('/', '--')}"
    place = folder / "snapshots" / choice.model.hub.revision
    place.mkdir(parents=True, exist_ok=True)
    for name in files or named.FILES:
        (place / name).write_text("{}")
    return place


def config_of(choice: ModelForCard, dtype: str = "auto") -> NodeConfig:
    config = NodeConfig.model_validate({"model": {"name": choice.model.name, "dtype": dtype}})
    return suited(config, choice=choice)


# Memory


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: f"{choice.least:g} GiB")
def test_each_choice_fits_by_the_plan_into_the_room_that_it_claims(choice) -> None:
    shape = shapes()[choice.model.name]
    for dtype, least in {"auto": choice.least, "float32": choice.least_float32}.items():
        if least is not None:
            made = plan_of(config_of(choice, dtype), shape, least * GIB)
            assert made.fits and made.choice.budget >= TOKENS and not made.choice.concurrent, made


def test_a_plan_in_less_room_than_a_large_choice_claims_has_to_take_less() -> None:
    """So the claims are no higher than the plan makes them where memory is what decides."""
    for choice in CHOICES[3:]:
        less = plan_of(config_of(choice), shapes()[choice.model.name], (choice.least - 1.25) * GIB)
        assert less.choice.budget < TOKENS or less.choice.concurrent or not less.fits


def test_the_weights_of_each_model_are_those_of_its_shape() -> None:
    for choice in CHOICES:
        counted = parameters_of(shapes()[choice.model.name])
        assert counted == pytest.approx(choice.model.weights, rel=0.001)
        # Two bytes a weight; some files hold the output head once more
        assert 2 * counted < choice.model.download < 2.5 * counted


def test_choices_stand_in_the_order_of_the_memory_that_they_need() -> None:
    needs = [choice.least for choice in CHOICES]
    assert needs == sorted(needs)
    assert all(choice.least_float32 in (None, choice.least) or choice.least_float32 > choice.least
               for choice in CHOICES)  # fmt: skip


def test_float32_needs_more_memory_and_gets_a_smaller_model() -> None:
    assert chosen(CARD, print).model.name == "Qwen/Qwen3-1.7B"
    assert chosen(OLD, print).model.name == "Qwen/Qwen2.5-1.5B-Instruct"
    assert chosen(replace(OLD, free=9 * GIB), print).model.name == "Qwen/Qwen2.5-0.5B-Instruct"


# Licences and commits


def test_every_model_has_a_free_licence_and_a_commit() -> None:
    for choice in CHOICES:
        assert choice.model.hub.licence == "Apache-2.0"
        assert re.fullmatch("[0-9a-f]{40}", choice.model.hub.revision)
        assert "2.5-3B" not in choice.model.name
        assert by_card.is_pinned(choice.model.name, choice.model.hub.revision)
        assert not by_card.is_pinned(choice.model.name, "0" * 40)
    assert not by_card.is_pinned(["Qwen/Qwen3-1.7B"], None)


# What can be had


def test_the_largest_that_fits_and_can_be_had_is_chosen(monkeypatch) -> None:
    sizes = {gib: chosen(replace(CARD, free=gib * GIB), print) for gib in (4, 5.5, 7, 9, 15, 22)}
    models = [choice.model.name.partition("/")[2] if choice else "" for choice in sizes.values()]
    assert models == [
        "",
        "Qwen2.5-0.5B-Instruct",
        "Qwen2.5-1.5B-Instruct",
        "Qwen3-1.7B",
        "Qwen3-4B-Instruct-2507",
        "Qwen3-4B-Instruct-2507",
    ]
    assert (sizes[15].questions, sizes[22].questions) == (8, 16)


def test_without_a_hub_only_what_is_here_is_chosen(monkeypatch) -> None:
    monkeypatch.setattr(named, "unreachable", lambda name, revision="", kind="": "no hub")
    assert chosen(CARD, print) is None
    keep(CHOICES[1])
    assert chosen(CARD, print) is CHOICES[1]


def test_a_model_of_several_files_is_here_when_all_of_them_are() -> None:
    hub = CHOICES[-1].model.hub
    place = keep(CHOICES[-1], "config.json", "tokenizer.json")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors",
                            "b": "model-00002-of-00002.safetensors"}}  # fmt: skip
    for content in ("{", "[]", '{"weight_map": 5}', '{"weight_map": {"a": "../config.json"}}'):
        (place / named.INDEX).write_text(content)
        assert not named.is_kept(hub), content
    (place / named.INDEX).write_text(json.dumps(index))
    (place / "model-00001-of-00002.safetensors").write_text("")
    assert not named.is_kept(hub)
    (place / "model-00002-of-00002.safetensors").write_text("")
    assert named.is_kept(hub)


def test_a_disk_or_a_memory_that_is_too_small_is_named_and_a_smaller_model_taken(
    monkeypatch,
) -> None:
    told: list[str] = []
    monkeypatch.setattr(by_card, "_free_disk", lambda place: 3e9)
    assert chosen(CARD, told.append).model.name == "Qwen/Qwen2.5-0.5B-Instruct"
    assert len(told) == 1 and "5.1 GB of disk in" in told[0] and "3.0 GB is free" in told[0]
    told.clear()
    monkeypatch.setattr(by_card, "_free_disk", lambda place: 1e12)
    monkeypatch.setattr(by_card.memory, "available", lambda: 5e9)
    assert chosen(CARD, told.append).model.name == "Qwen/Qwen2.5-0.5B-Instruct"
    assert len(told) == 1 and "5.8 GB of memory in addition to the card's" in told[0]


def test_the_same_model_is_trained_by_the_room_that_there_is() -> None:
    name = CHOICES[-1].model.name
    assert choice_of(name, replace(CARD, free=23 * GIB)) is CHOICES[-1]
    assert choice_of(name, replace(CARD, free=14 * GIB)) is CHOICES[-2]
    assert choice_of(name, CARD) is choice_of(name) is CHOICES[-2]
    assert choice_of("somebody/else") is None


# The line, and the question


def test_one_line_says_model_commit_licence_size_place_and_how_to_choose_otherwise(
    tmp_path,
) -> None:
    text = line(CHOICES[1], CARD)
    for word in (
        *("a card with 11.0 of 12.0 GiB free", "Qwen/Qwen2.5-1.5B-Instruct at 989aa798"),
        *("Apache-2.0", "a download of 3.1 GB", str(tmp_path / "hub"), "--model.name"),
    ):
        assert word in text, word
    keep(CHOICES[1])
    assert "already here" in line(CHOICES[1], CARD) and "download" not in line(CHOICES[1], CARD)


@pytest.fixture
def fetched(monkeypatch) -> list[str]:
    """The models that are fetched, in place of fetching them."""
    found: list[str] = []
    monkeypatch.setattr(named, "snapshot", lambda hub, tell: found.append(hub.repository))
    return found


def test_a_large_download_waits_for_a_yes(fetched) -> None:
    asked: list[str] = []
    told: list[str] = []
    answer = False

    def agrees(question: str) -> bool:
        asked.append(question)
        return answer

    get = getting(told.append, 500e6, agrees)
    assert not get(CHOICES[1], CARD) and not fetched
    assert asked == ["download 3.1 GB?"] and "--limits.download 3100" in told[-1]
    answer = True
    assert get(CHOICES[1], CARD) and fetched == [CHOICES[1].model.name]


def test_where_nobody_can_be_asked_nothing_large_is_downloaded_and_a_line_says_how_to_allow_it(
    fetched,
) -> None:
    told: list[str] = []
    assert not getting(told.append, 500e6, None)(CHOICES[1], CARD)
    assert not fetched
    assert len(told) == 2 and "--limits.download 3100" in told[1]
    assert "SWARM_NODE_LIMITS__DOWNLOAD=3100" in told[1] and "\n" not in "".join(told)


def test_the_figure_in_that_line_allows_the_download(fetched) -> None:
    for choice in CHOICES:
        told: list[str] = []
        assert not getting(told.append, 500e6, None)(choice, CARD)
        (figure,) = re.findall(r"--limits.download (\d+)", told[1])
        assert getting(told.append, int(figure) * 1e6, None)(choice, CARD)


def test_what_is_here_is_taken_without_a_question(fetched) -> None:
    keep(CHOICES[1])
    assert getting(print, 0.0, None)(CHOICES[1], CARD)


def test_a_download_that_fails_is_told_in_one_line_and_is_no_error(monkeypatch) -> None:
    def fail(hub: object, tell: object) -> None:
        raise UserError("Qwen: no space left\nTraceback")

    monkeypatch.setattr(named, "snapshot", fail)
    told: list[str] = []
    assert not getting(told.append, 1e12, None)(CHOICES[0], CARD)
    assert "cannot be downloaded: Qwen: no space left" in told[-1] and "\n" not in told[-1]
