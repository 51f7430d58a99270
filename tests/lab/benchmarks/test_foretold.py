"""What is foretold of a round on a card, and the page that shows it."""

import pytest

from lab.benchmarks.foretold import (
    CARDS,
    CONFIGS,
    H200,
    MEASURED,
    PAGE,
    named_card,
    of_choice,
    of_file,
    page,
    seconds,
)
from lab.benchmarks.shapes import shapes
from swarm_node.policy.by_card import CHOICES

HALF_B = "Qwen/Qwen2.5-0.5B-Instruct"


def test_what_is_foretold_for_the_one_round_that_was_measured_is_near_it() -> None:
    config = of_file(CONFIGS / "full_12gb.toml")
    assert config.model.name == HALF_B
    for foretold, measured in zip(seconds(config, shapes()[HALF_B], H200), MEASURED, strict=True):
        assert foretold == pytest.approx(measured, rel=0.25)


def test_a_faster_card_a_smaller_model_and_a_shorter_completion_take_less_time() -> None:
    def total(choice, card, **generation) -> float:
        config = of_choice(choice)
        longer = config.generation.model_copy(update=generation)
        config = config.model_copy(update={"generation": longer})
        return sum(seconds(config, shapes()[config.model.name], card))

    small, large = CHOICES[:2]
    assert total(small, CARDS[24]) < total(small, CARDS[12]) < total(small, CARDS[6])
    assert total(small, CARDS[12]) < total(large, CARDS[12])
    half = total(large, CARDS[12], max_completion_length=128)
    assert 0.4 < half / total(large, CARDS[12]) < 0.7


def test_the_page_has_the_table_of_today_and_every_pin() -> None:
    """`python -m lab.benchmarks.foretold --page` writes it."""
    text = PAGE.read_text(encoding="utf-8")
    assert page() == text
    for choice in CHOICES:
        hub = choice.model.hub
        assert f"| {hub.repository} | `{hub.revision}` | {hub.licence} |" in text
        assert f"{choice.least:g}" in text


def test_the_page_says_that_nobody_ran_these_rounds_and_what_was_measured() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert "Nobody has run these rounds on a card" in text
    assert f"{MEASURED[0]} + {MEASURED[1]} s were measured" in text
    config = of_file(CONFIGS / "full_12gb.toml")
    generation, update = seconds(config, shapes()[HALF_B], H200)
    assert f"the prediction is {generation:.1f} + {update:.1f} s" in text


def test_a_configuration_names_the_card_that_it_is_for() -> None:
    assert named_card("# Adapters on a 12 GB GPU: so") == 12
    assert named_card("# for a CPU") == 0
