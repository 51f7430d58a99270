"""Which places of a round external groups take: those of local groups that teach nothing."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from protocol.messages import Round
from swarm_node.node.learner import build_defence
from swarm_node.rollouts.adaptive_sampler import AdaptiveSampler
from swarm_node.rollouts.groups import Generated, Group, Selection
from swarm_node.rollouts.inbox import Inbox
from swarm_node.rollouts.places import Places, filled_places
from swarm_node.rollouts.sampler import InformativeSampler, Sampler, UniformSampler
from swarm_node.settings import DefenceConfig, RoundConfig
from tests.groups import external, scored
from tests.models import IDENTITIES, selecting, text_group

RIGHT, WRONG, MIXED = (1.0, 1.0), (0.0, 0.0), (1.0, 0.0)


def group(rewards: tuple[float, ...], index: int, author: str = "peer") -> Group:
    texts = [str(number) for number in range(len(rewards))]
    return scored(text_group(rewards, texts, author=author, index=index), "?", rewards)


def own(*rewards: tuple[float, ...]) -> list[Group]:
    return [group(given, index, author="me") for index, given in enumerate(rewards)]


def select(
    local: list[Group],
    waiting: int = 8,
    *,
    config: RoundConfig,
    sampler: Sampler | None = None,
    fill_with_local: bool = True,
    layers: Sequence[str] = (),
    inbox: Inbox | None = None,
) -> Selection:
    """What a round selects that generated these groups, while so many informative external ones
    wait.
    """
    others = {index: group(MIXED, index) for index in range(waiting)}
    inbox = Inbox(IDENTITIES[0].peer_id) if inbox is None else inbox  # an empty one is false
    inbox.arrive([external(each) for each in others.values()], Round(0))

    def score(asked):
        return [others[each.question.index] for each in asked]

    node = selecting(sampler or UniformSampler(), inbox, score, 0)
    defence = build_defence(DefenceConfig(layers=tuple(layers)))
    node = replace(node, config=config, defence=defence, fill_with_local=fill_with_local)
    return node.select(Generated(Round(0), local, {}, {}))


def sizes(selection: Selection) -> tuple[int, int]:
    return len(selection.local), len(selection.external)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        ((WRONG, WRONG, WRONG, WRONG), 6),  # four places are free, and `fill` allows three
        ((WRONG, RIGHT, MIXED, MIXED), 5),  # all right teaches as little as all wrong
        ((WRONG, MIXED, MIXED, MIXED), 4),
        ((MIXED, MIXED, MIXED, MIXED), 3),
    ],
)
def test_external_groups_take_the_places_of_local_ones_that_teach_nothing(rewards, expected):
    config = RoundConfig(local_groups=4, external_groups=3, fill=3)
    assert sizes(select(own(*rewards), config=config)) == (4, expected)
    assert (
        sizes(select(own(*rewards), config=RoundConfig(local_groups=4, external_groups=3)))[1] == 3
    )


def test_a_round_takes_fewer_again_when_its_own_groups_teach():
    config = RoundConfig(local_groups=4, external_groups=2, fill=4)
    rounds = [own(*[MIXED] * teaching, *[WRONG] * (4 - teaching)) for teaching in range(5)]
    assert [sizes(select(local, config=config))[1] for local in rounds] == [6, 5, 4, 3, 2]


def test_a_node_whose_groups_all_teach_selects_what_it_selects_without_the_option():
    local = own(*[MIXED] * 6)
    plain = RoundConfig(local_groups=4, external_groups=3)
    with_option = plain.model_copy(update={"fill": 4})
    assert select(local, config=plain) == select(local, config=with_option)


def test_the_external_groups_of_a_round_are_among_those_that_it_takes_when_it_fills_places():
    local = own(WRONG, WRONG, WRONG, MIXED)
    plain = RoundConfig(local_groups=4, external_groups=2)
    without, filled = (
        select(local, config=config) for config in (plain, plain.model_copy(update={"fill": 2}))
    )
    assert without.external == filled.external[:2] and without.local == filled.local
    assert len(filled.external) == 4


def test_a_node_that_wants_no_external_groups_fills_no_place_with_them():
    config = RoundConfig(local_groups=4, external_groups=0, fill=4)
    assert sizes(select(own(*[WRONG] * 4), config=config)) == (4, 0)
    assert config.most_external == 0


def test_places_that_nobody_fills_go_to_no_further_local_group():
    # Four of six own groups have places; two external ones are wanted and four places are free
    config = RoundConfig(local_groups=4, external_groups=2, fill=4)
    local = own(*[WRONG] * 6)
    assert sizes(select(local, waiting=5, config=config)) == (4, 5)
    # As without the option, local groups stand in for the two external ones alone
    assert sizes(select(local, waiting=1, config=config)) == (5, 1)
    assert sizes(select(local, waiting=0, config=config)) == (6, 0)
    assert sizes(select(local, waiting=0, config=config, fill_with_local=False)) == (4, 0)


def test_a_sampler_that_draws_informative_local_groups_alone_leaves_the_other_places_free():
    config = RoundConfig(local_groups=4, external_groups=2, fill=4)
    local = own(WRONG, MIXED, WRONG, WRONG, WRONG, WRONG)
    selection = select(local, config=config, sampler=InformativeSampler())
    assert selection.local == [local[1]] and len(selection.external) == 5


class Thrifty(UniformSampler):
    """Wants one external group a round."""

    def split(self, local: int, external: int) -> tuple[int, int]:
        return local + external - 1, 1


def test_the_places_are_those_that_the_sampler_divides():
    config = RoundConfig(local_groups=2, external_groups=2, fill=9)
    selection = select(own(WRONG, WRONG, MIXED), config=config, sampler=Thrifty())
    assert sizes(selection) == (3, 3)  # the one it wants, and two places of wrong groups


def test_places_count_by_hand():
    assert filled_places(4, own(WRONG, MIXED), 8) == 3
    assert filled_places(4, own(WRONG, MIXED), 1) == 1
    assert filled_places(4, [], 8) == 4 and filled_places(0, [], 8) == 0
    places = Places(own(WRONG), own(MIXED, MIXED), external=2, filled=1)
    assert places.wanted == 3
    assert [len(places.with_spare(taken)) for taken in range(4)] == [3, 2, 1, 1]


def test_where_the_defence_compares_the_next_round_asks_what_fills_places_too():
    asked = []
    for fill in (0, 3):
        inbox = Inbox(IDENTITIES[0].peer_id)
        config = RoundConfig(local_groups=4, external_groups=2, fill=fill)
        select(own(*[WRONG] * 4), config=config, layers=("rescue",), inbox=inbox)
        asked.append(len(inbox.questions()))
    assert asked == [2, 5]


def test_what_fills_places_has_room_in_the_purse():
    texts = ["12345"] * 2
    local = [scored(text_group(WRONG, texts, author="me", index=k), "?", WRONG) for k in range(4)]

    def letters(of: Group) -> list[int]:
        return [len(sample.written[0]) for sample in of.samples]

    others = [scored(text_group(MIXED, texts, index=k), "?", MIXED) for k in range(8)]
    inbox = Inbox(IDENTITIES[0].peer_id)
    inbox.arrive([external(each) for each in others], Round(0))
    node = selecting(
        UniformSampler(), inbox, lambda asked: [others[each.question.index] for each in asked], 0
    )
    for fill, given, expected in ((0, 0, 2), (3, 0, 5), (3, 30, 3)):
        inbox = Inbox(IDENTITIES[0].peer_id)
        inbox.arrive([external(each) for each in others], Round(0))
        config = RoundConfig(local_groups=4, external_groups=2, fill=fill, external_tokens=given)
        chosen = replace(node, inbox=inbox, config=config, lengths=letters)
        selection = chosen.select(Generated(Round(0), local, {}, {}))
        assert len(selection.external) == expected, (fill, given)


def test_a_sampler_that_gives_places_of_local_groups_away_has_room_for_them_in_the_purse():
    texts = ["12345"] * 2
    local = [scored(text_group(WRONG, texts, author="me", index=k), "?", WRONG) for k in range(4)]
    others = [scored(text_group(MIXED, texts, index=k), "?", MIXED) for k in range(8)]

    def letters(of: Group) -> list[int]:
        return [len(sample.written[0]) for sample in of.samples]

    inbox = Inbox(IDENTITIES[0].peer_id)
    inbox.arrive([external(each) for each in others], Round(0))
    node = selecting(
        AdaptiveSampler(), inbox, lambda asked: [others[each.question.index] for each in asked], 0
    )
    config = RoundConfig(local_groups=4, external_groups=2)
    chosen = replace(node, config=config, lengths=letters)
    assert sizes(chosen.select(Generated(Round(0), local, {}, {}))) == (0, 6)


def test_chance_is_asked_the_same_questions_with_the_option_and_without_it():
    asked = list[str]()

    class Asked(Random):
        def sample(self, population, k, **rest):
            asked.append(f"{k} of {len(population)}")
            return super().sample(population, k, **rest)

    counts = []
    for fill in (0, 4):
        asked.clear()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("swarm_node.node.round.Random", Asked)
            config = RoundConfig(local_groups=4, external_groups=2, fill=fill)
            select(own(*[WRONG] * 6), config=config)
        counts.append(list(asked))
    assert counts[0] == counts[1] == ["6 of 6", "8 of 8"]
