"""A near copy is known by what it says. Honest peers who answer one question are left alone."""

import time
import tracemalloc
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_node.rollouts.copies import (
    LEAST_CHARS,
    MAX_OF_PROMPT,
    MAX_OF_PROMPT_TEXTS,
    SKETCH,
    Copies,
    alike,
    sketch,
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


def half_alike(rng: Random) -> str:
    """A text that has as much in common with all others of its kind as is just no near copy."""
    common = "".join(Random(0).choices("abcdefghijklmnopqrstuvwxyz", k=500))
    return common + "".join(rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=330))


def test_texts_that_are_nearly_near_copies_of_all_others_cost_little() -> None:
    """Compared in pairs by heaps, as before, a group took 3 s of CPU time, and a round looks at
    dozens.
    """
    rng, copies = Random(1), Copies()
    made = [[half_alike(rng) for _ in range(64)] for _ in range(MAX_OF_PROMPT + 1)]
    for number, texts in enumerate(made[:-1]):
        assert not copies.is_copy(group(f"eve{number}", texts))
    last = group("eve", made[-1])
    began = time.process_time()
    assert not copies.is_copy(last)
    assert time.process_time() - began < 1.0


def test_what_is_remembered_is_bounded_in_completions_of_a_prompt_and_in_all() -> None:
    rng, copies = Random(1), Copies(texts=300)
    for number in range(8):
        assert not copies.is_copy(group(f"eve{number}", [thought(rng) for _ in range(64)]))
        assert copies.held <= MAX_OF_PROMPT_TEXTS
    for number in range(8):
        texts = [thought(rng) for _ in range(64)]
        assert not copies.is_copy(group("eve", texts, prompt=f"Question {number}"))
        assert copies.held <= 300
    assert copies.is_copy(group("bob", texts, prompt="Question 7"))


def test_a_group_that_is_remembered_takes_little_memory_however_much_it_says() -> None:
    said = [
        group(f"peer{n}", [thought(Random(n), 150) for _ in range(64)], prompt=f"question {n}")
        for n in range(8)
    ]
    tracemalloc.start()
    try:
        copies = Copies()
        before = tracemalloc.get_traced_memory()[0]
        for one in said:
            assert not copies.is_copy(one)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert kept < len(said) * 64 * (4 * SKETCH + 150)


def test_groups_of_many_completions_push_out_each_other_and_not_those_of_few() -> None:
    rng, copies = Random(1), Copies()
    honest = [[thought(rng) for _ in range(8)] for _ in range(8)]
    for number, texts in enumerate(honest):
        assert not copies.is_copy(group(f"peer{number}", texts))
    for number in range(7):
        assert not copies.is_copy(group(f"eve{number}", [thought(rng) for _ in range(64)]))
    for texts in honest:
        assert copies.is_copy(group("eve", texts))


@given(st.text(min_size=LEAST_CHARS), st.integers(0, 2**32))
def test_any_long_text_is_alike_to_itself_and_a_changed_letter_of_fifty_keeps_it_so(
    text: str, seed: int
) -> None:
    assert alike(sketch(text), sketch(text))
    long = thought(Random(seed))
    assert alike(sketch(long), sketch(changed(long, Random(seed), len(long) // 50)))
