"""Which external groups a round can afford, counted in tokens."""

import pytest

from swarm_node.rollouts.cost import Purse, allowance, trained_tokens
from swarm_node.rollouts.defence import ADDED
from swarm_node.rollouts.groups import Group
from tests.models import text_group


def external(*texts: str, author: str = "ann") -> Group:
    return text_group([1.0] * len(texts), texts, author=author)


def letters(group: Group) -> list[int]:
    """Lengths with one token a letter, and none for an end."""
    return [len(sample.free_texts[0]) for sample in group.samples]


def purse(allowed: float, added: int | None = None) -> Purse:
    return Purse(allowed, letters, added)


def test_external_groups_may_take_what_own_ones_would_and_a_tenth_of_the_round() -> None:
    own = [[10] * 8] * 9
    assert allowance(own, 4, None) == pytest.approx(4 * 80 + 0.1 * 9 * 80)
    # With `rescue` only two completions of an external group are trained on
    assert allowance(own, 4, ADDED) == pytest.approx(4 * 20 + 0.1 * 9 * 80)


def test_without_a_group_of_its_own_a_round_has_nothing_to_compare_with_and_takes_all() -> None:
    assert allowance([], 4, None) == float("inf")


def test_a_node_that_wants_no_external_groups_allows_a_tenth_of_its_own_tokens_at_most() -> None:
    assert allowance([[10] * 8], 0, None) == pytest.approx(8)


def test_only_the_longest_completions_that_may_be_added_count() -> None:
    assert trained_tokens([1, 600, 2, 500], 2) == 1100
    assert trained_tokens([1, 600, 2, 500], None) == 1103
    assert trained_tokens([], 2) == 0


def test_a_group_longer_than_the_whole_purse_is_too_long_and_others_wait_for_their_turn() -> None:
    short, middling, long = external("1", "22"), external("1" * 40, "2"), external("3" * 600, "4")
    assert purse(50).admitted([short, middling, long]) == ([short, middling], [long])
    assert purse(50).beside([short], [middling]) == [middling]
    # 41 tokens are spent, and 9 are left
    assert purse(50).beside([middling], [middling, short]) == [short]
    assert purse(50).affordable([middling, middling, short]) == [middling, short]


def test_what_is_chosen_never_takes_more_than_the_purse_has() -> None:
    groups = [external("1" * length, "2") for length in (30, 5, 17, 48, 1, 9)]
    kept = purse(60).affordable(groups)
    assert sum(sum(letters(group)) for group in kept) <= 60
    assert kept == [groups[0], groups[1], groups[2], groups[4]]


def test_a_tokenizer_is_asked_only_about_texts_that_could_be_too_long() -> None:
    asked: list[Group] = []

    def counted(group: Group) -> list[int]:
        asked.append(group)
        return letters(group)

    short, long = external("1", "2"), external("3" * 600, "4")
    assert Purse(50, counted).admitted([short, long]) == ([short], [long])
    assert asked == [long]


def test_bytes_decide_nothing_alone_as_a_tokenizer_may_need_few_tokens_for_many() -> None:
    words = external("word " * 100, "no")
    short = Purse(
        50, lambda group: [len(sample.free_texts[0].split()) // 4 for sample in group.samples]
    )
    assert short.admitted([words]) == ([words], [])


def test_a_node_that_counts_nothing_takes_groups_of_any_length() -> None:
    free = Purse.of_round([external("1", "2")], 4, None, None)
    long = external("3" * 6000, "4")
    assert free.admitted([long]) == ([long], [])
    assert free.beside([long] * 9, [long]) == free.affordable([long]) == [long]


def test_the_user_may_give_the_number_of_tokens() -> None:
    own = [external("1" * 9, "2")]
    assert Purse.of_round(own, 4, letters, None).allowed == pytest.approx(41)
    assert Purse.of_round(own, 4, letters, None, given=7).allowed == 7
