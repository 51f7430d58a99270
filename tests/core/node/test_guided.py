"""Guided groups: a node goes on from the beginning of a peer's right completion."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from protocol.messages import PeerId, Round
from swarm_node.common.errors import UserError
from swarm_node.network.in_memory import MemorySwarm
from swarm_node.node.guided import Beginning, Guide, all_wrong
from swarm_node.node.learner import build_guide
from swarm_node.node.round import Node
from swarm_node.policy.batch import tokenise
from swarm_node.rollouts.groups import Completions, Group, Sample, Skipped, Tokens
from swarm_node.settings import LearningConfig, RoundConfig
from tests.groups import scored, tokens_of
from tests.models import GENERATION, IDENTITIES, Digits, join, make_node, text_group, tiny_policy

MIXED, WRONG, RIGHT = (1.0, 0.0), (0.0, 0.0), (1.0, 1.0)


class Letters:
    """Encodes a letter as its code; the end of a completion is 0."""

    def encode_prompt(self, text: str) -> list[int]:
        return [1, *map(ord, text)]

    def encode_completion(self, text: str, *, ended: bool) -> list[int]:
        return [*map(ord, text), *[0] * ended]

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        raise NotImplementedError("no question here has several turns")


def group(
    rewards: Sequence[float],
    index: int = 0,
    task: str = "gcd",
    texts: Sequence[str] = ("abcdefgh", "stuvwxyz"),
) -> Group:
    made = text_group(rewards, texts, index=index)
    question = made.question.model_copy(update={"dataset": task})
    return scored(made.message().model_copy(update={"question": question}), "?", tuple(rewards))


def guide(characters: int = 3, most: int = 4) -> Guide:
    return Guide(Letters(), characters, most)


def test_only_a_group_without_any_right_completion_is_all_wrong() -> None:
    assert all_wrong(group(WRONG)) and all_wrong(group((0.1, 0.1)))
    assert not all_wrong(group(MIXED)) and not all_wrong(group(RIGHT))


def test_for_each_group_that_is_all_wrong_one_external_group_is_noted_of_its_task_first() -> None:
    offered = [group(MIXED, index, task) for index, task in enumerate(("lcm", "gcd", "gcd"))]
    own = [
        group(WRONG, task="gcd"),
        group(MIXED, task="gcd"),
        group(RIGHT),
        group(WRONG, task="lcm"),
    ]
    for seed in range(10):
        made = guide()
        made.note(own, offered, Random(seed))
        assert [noted.question.dataset for noted in made.noted] == ["gcd", "lcm"]
    made = guide()
    made.note([group(WRONG, task="gcd")] * 5, offered, Random(0))
    # Each group once, those of another task last
    assert [noted.question.dataset for noted in made.noted] == ["gcd", "gcd", "lcm"]
    assert len({noted.question for noted in made.noted}) == 3
    made = guide(most=1)
    made.note([group(WRONG)] * 5, offered, Random(0))
    assert len(made.noted) == 1


@pytest.mark.parametrize(
    ("text", "characters", "expected"),
    [("abcdefgh", 3, "abc"), ("abcdefgh", 9, "abcd"), ("abc", 2, "a")],
)
def test_at_most_half_of_a_right_completion_is_given_away(text, characters, expected) -> None:
    made = guide(characters)
    made.note([group(WRONG)], [group(MIXED, texts=(text, "stuvwxyz"))], Random(0))
    assert [noted.text for noted in made.noted] == [expected]


def test_a_completion_that_is_too_short_or_not_right_guides_nobody() -> None:
    made = guide()
    made.note([group(WRONG)], [group(MIXED, texts=("a", "stuvwxyz"))], Random(0))
    assert made.noted == []
    made.note([group(WRONG)], [group((0.2, 0.0))], Random(0))  # better than its group, and wrong
    assert made.noted == []


def test_what_is_noted_serves_one_round() -> None:
    made = guide()
    made.note([group(WRONG)], [group(MIXED)], Random(0))
    assert len(made.take()) == 1 and made.take() == []
    made.note([group(WRONG)], [group(MIXED)], Random(0))
    made.note([group(MIXED)], [group(MIXED)], Random(0))
    assert made.take() == []  # the newest round counts: its own groups teach again


class Echo:
    """A generator that writes "xy" behind what it is given, and notes that."""

    decoder_name = "echo"

    def __init__(self) -> None:
        self.contexts: list[list[int]] = []
        self.stream = ""

    def open(self, *, goes_on: bool):
        assert not goes_on
        return self._write

    def _write(self, contexts, group_size: int, stream: str) -> list[Completions | Skipped]:
        self.contexts, self.stream = [list(ids) for ids in contexts], stream
        tokens = Tokens((120, 121, 0), (-0.5, -0.25, -0.125), (7, 7, 7))
        sample = text_group([0.0, 0.0], ["xy", "xy"]).samples[0]
        made = Sample(sample.episode, tokens=tokens)
        return [Completions(tuple(ids), (made,) * group_size) for ids in self.contexts]


def test_a_completion_goes_on_from_the_beginning_and_only_its_own_tokens_are_trained_on() -> None:
    asked = group(WRONG)
    prompted = replace(asked, samples=(), prompt="2+2=")
    generator = Echo()
    (made,) = guide().complete(
        generator, [prompted], [Beginning(asked.question, "abc")], 2, "0/me/5"
    )
    assert isinstance(made, Group)
    context = [1, *map(ord, "2+2="), *map(ord, "abc")]
    assert (generator.contexts, generator.stream) == ([context], "0/me/5/guided")
    assert made.prompt_ids == tuple(context[:5])
    assert [episode.text for episode in made.episodes] == ["abcxy", "abcxy"]
    tokens = tokens_of(made)[0]
    assert tokens.ids == (*map(ord, "abc"), 120, 121, 0) and tokens.written_count == 3
    assert tokens.mask == (False,) * 3 + (True,) * 3
    # As rows of an update: the beginning is fed, and neither predicted nor of known probability
    policy = tiny_policy("Qwen2")
    row = tokenise(made, (1.0, -1.0), policy).rows[0]
    assert list(row.predicted) == [3, 4, 5]
    assert list(row.behaviour) == [-0.5, -0.25, -0.125] and len(row.staleness) == 3
    assert not row.external


class Parity(Digits):
    """A completion is right if it begins with a 9 and the codes of the others have an even sum."""

    def score(self, completions):
        self.scored += [(asked, tuple(texts)) for asked, texts in completions]
        return [tuple(map(_right, texts)) for _, texts in completions]


def _right(text: str) -> float:
    return float(text.startswith("9") and sum(map(ord, text[1:])) % 2 == 0)


def swarm_of_two(prefix: int, local: int = 2, questions: int = 4) -> tuple[Node, Node]:
    """A writer, which knows right completions, and a reader that is never right by itself."""
    swarm = MemorySwarm(Random(0))
    writer = make_node(0, join(swarm, 0))
    policy = tiny_policy("Qwen2")
    reader = make_node(
        1, join(swarm, 1), Parity(), local=local, external=2, questions=questions, policy=policy
    )
    return writer, replace(reader, guide=Guide(policy, prefix, 2) if prefix else None)


def publish(writer: Node, now: int, texts: Sequence[str] = ("9876", "98765")) -> None:
    author = writer.peer_id
    asked = Digits().sample(author, Round(now), 2)
    groups = [
        Group.of_text(author, Round(now), question, text_group([0.0, 1.0], texts).episodes)
        for question in asked
    ]
    writer.network.publish([each.message() for each in groups], Round(now))


def two_rounds(prefix: int, seed: int = 0):
    writer, reader = swarm_of_two(prefix)
    publish(writer, 0)
    reader = replace(reader, seed=seed)
    first = reader.select(reader.produce(Round(0)))
    assert len(first.external) == 2
    second = reader.produce(Round(1))
    return reader, first, second


def test_a_node_whose_groups_are_all_wrong_goes_on_from_what_a_peer_wrote() -> None:
    reader, first, second = two_rounds(prefix=1)
    assert all(map(all_wrong, first.generated.groups))
    assert {each.question for each in second.guided} == {each.question for each in first.external}
    assert len(second.guided) == 2 and len(second.groups) == 2  # four prompts, as without
    for guided in second.guided:
        assert all(text.text.startswith("9") for text in guided.episodes)
        assert guided.rewards == tuple(_right(episode.text) for episode in guided.episodes)
    selection = reader.select(second)
    teaching = [each for each in second.guided if each.informative]
    assert teaching and selection.local[-len(teaching) :] == teaching
    report = reader.train(selection)
    assert report.guided_informative == len(teaching) and report.step.optimizer_steps == 1
    assert report.rollouts == 4 * GENERATION.num_generations
    own = [
        tokens.written_count
        for each in [*second.groups, *second.guided]
        for tokens in tokens_of(each)
    ]
    assert report.generated_tokens == sum(own)


def test_without_the_option_a_round_asks_and_selects_as_it_did() -> None:
    _, first, second = two_rounds(prefix=0)
    _, with_option, _ = two_rounds(prefix=1)
    assert (second.guided, len(second.groups)) == ([], 4)
    assert with_option.local == first.local and with_option.external == first.external


def test_guided_groups_are_not_published() -> None:
    reader, _, second = two_rounds(prefix=1)
    told = list[PeerId]()
    reader.network.publish = lambda groups, now: told.extend(  # type: ignore[method-assign]
        each.author for each in groups
    )
    reader.publish(second)
    assert set(told) <= {IDENTITIES[1].peer_id}


def test_a_question_that_cannot_be_built_guides_nobody_and_is_counted() -> None:
    reader, _, _ = two_rounds(prefix=1)
    gone = replace(reader, environment=Parity(refuse_prompt=frozenset({0, 1, 2, 3})))
    assert reader.guide is not None
    publishing = [Beginning(asked, "9") for asked in Digits().sample(PeerId("peer"), Round(0), 1)]
    reader.guide.noted = publishing
    generated = gone.produce(Round(2))
    assert generated.guided == [] and generated.skipped["prompt cannot be built"] == 4


def test_guided_groups_take_places_before_external_ones_fill_them() -> None:
    reader, _, second = two_rounds(prefix=1)
    teaching = sum(each.informative for each in second.guided)
    config = reader.config.model_copy(update={"fill": 2})
    places = replace(reader, config=config)._places(second, Random(0))
    assert places.filled == 2 - teaching


def test_a_node_has_a_guide_where_it_is_asked_for_one_and_generates_by_itself() -> None:
    policy = tiny_policy("Qwen2")
    assert build_guide(LearningConfig(), policy) is None
    alone = LearningConfig(round=RoundConfig(prefix=3, external_groups=0))
    assert build_guide(alone, policy) is None
    config = LearningConfig(round=RoundConfig(prefix=3, external_groups=2))
    made = build_guide(config, policy)
    assert made is not None and (made.characters, made.most) == (3, 2)
    aside = config.asynchronous.model_copy(update={"enabled": True})
    with pytest.raises(UserError, match="in one process"):
        build_guide(config.model_copy(update={"asynchronous": aside}), policy)
