"""A near copy is known by what it says. Honest peers who answer one question are left alone."""

import tracemalloc
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.rollouts.copies import (
    LEAST_CHARS,
    MAX_OF_PROMPT,
    SKETCH,
    Copies,
    alike,
    packed,
    sketch,
    unpacked,
)
from swarm_node.rollouts.groups import Group
from tests.groups import external
from tests.models import text_group

TEXT = """six seven times plus minus equals therefore because first then next answer total sum
apples pears each every many counts gives left right over under more less half twice"""
WORDS = TEXT.split()


def thought(rng: Random, words: int = 40) -> str:
    """A text as a model might write it."""
    return " ".join(rng.choice(WORDS) for _ in range(words))


def group(author: str, texts: list[str], prompt: str = "How many?", index: int = 0) -> Group:
    made = text_group([0.0, 1.0] * (len(texts) // 2), texts, author=author, index=index)
    return replace(external(made), prompt=prompt)


def changed(text: str, rng: Random, count: int = 1) -> str:
    letters = list(text)
    for place in rng.sample(range(len(letters)), count):
        letters[place] = "#"
    return "".join(letters)


def test_a_copy_with_one_character_changed_is_known_of_any_author_and_in_any_order() -> None:
    rng, copies = Random(0), Copies()
    texts = [thought(rng) for _ in range(8)]
    assert not copies.is_copy(group("ann", texts))
    for author in ("ann", "eve"):
        shuffled = [changed(text, rng) for text in rng.sample(texts, 8)]
        assert copies.is_copy(group(author, shuffled, index=1))


def test_a_group_is_a_copy_if_half_of_its_completions_are() -> None:
    rng, copies = Random(0), Copies()
    texts = [thought(rng) for _ in range(8)]
    assert not copies.is_copy(group("ann", texts))
    assert not copies.is_copy(group("bob", texts[:3] + [thought(rng) for _ in range(5)]))
    assert copies.is_copy(group("eve", texts[4:] + [thought(rng) for _ in range(4)]))


@pytest.mark.parametrize("prompt", ["How many?", "Another question"])
def test_honest_peers_who_answer_the_same_question_are_no_copies(prompt: str) -> None:
    copies = Copies()
    for number in range(12):
        rng = Random(number)
        assert not copies.is_copy(group(f"peer{number}", [thought(rng) for _ in range(8)], prompt))


def test_short_answers_are_the_same_by_chance_and_say_nothing() -> None:
    copies = Copies()
    for author in ("ann", "bob", "cat"):
        assert not copies.is_copy(group(author, ["42", "The answer is 42."] * 4))


def test_the_same_text_to_another_prompt_is_no_copy_nor_is_a_group_a_copy_of_itself() -> None:
    rng, copies = Random(0), Copies()
    texts = [thought(rng) for _ in range(4)]
    assert not copies.is_copy(group("ann", texts))
    assert not copies.is_copy(group("ann", texts))
    assert not copies.is_copy(group("bob", texts, prompt="Another question"))


def test_of_one_prompt_so_many_groups_are_remembered_the_newest() -> None:
    copies = Copies()
    said = [[thought(Random(number)) for _ in range(2)] for number in range(MAX_OF_PROMPT + 1)]
    for number, texts in enumerate(said):
        assert not copies.is_copy(group(f"peer{number}", texts))
    assert copies.is_copy(group("eve", said[1]))
    assert not copies.is_copy(group("eve", said[0]))


def test_of_all_prompts_together_so_many_groups_are_remembered_the_newest() -> None:
    copies, most = Copies(2 * MAX_OF_PROMPT), 2 * MAX_OF_PROMPT
    said = [[thought(Random(number)) for _ in range(2)] for number in range(6 * MAX_OF_PROMPT)]
    for number, texts in enumerate(said):
        assert not copies.is_copy(group(f"peer{number}", texts, prompt=f"question {number % 4}"))
        assert len(copies) == min(number + 1, len(copies)) <= most
    assert copies.is_copy(group("eve", said[-1], prompt=f"question {(len(said) - 1) % 4}"))
    assert not copies.is_copy(group("eve", said[0], prompt="question 0"))


def test_a_group_that_is_remembered_takes_little_memory_however_much_it_says() -> None:
    said = [group(f"peer{n}", [thought(Random(n), 150) for _ in range(64)]) for n in range(8)]
    said = [replace(each, prompt=f"question {number}") for number, each in enumerate(said)]
    tracemalloc.start()
    try:
        copies = Copies()
        before = tracemalloc.get_traced_memory()[0]
        for each in said:
            assert not copies.is_copy(each)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < len(said) * 64 * (4 * SKETCH + 100)


@given(st.text(min_size=LEAST_CHARS))
def test_a_sketch_is_the_same_after_it_was_kept(text: str) -> None:
    assert unpacked(packed(sketch(text))) == sketch(text)


@given(st.text(min_size=LEAST_CHARS), st.integers(0, 2**32))
def test_any_long_text_is_alike_to_itself_and_a_changed_letter_of_fifty_keeps_it_so(
    text: str, seed: int
) -> None:
    assert alike(sketch(text), sketch(text))
    long = thought(Random(seed))
    assert alike(sketch(long), sketch(changed(long, Random(seed), len(long) // 50)))
