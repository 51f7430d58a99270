"""The ring of samples: bounded, about one a second at most, and an error of the disk costs only
samples.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from protocol.messages import Call, Turn
from swarm_node.rollouts.groups import Generated, Group, Refused, Selection, Tokens
from swarm_node.telemetry.samples import FILE, OLDER, SampleRing, sample_of, samples_of
from swarm_node.training.objectives import group_advantages
from tests import groups


def scored(
    author: str = "eve", index: int = 0, texts: tuple[str, ...] = ("4", "five"), rewards=(1.0, 0.0)
) -> Group:
    return groups.scored(groups.group(author, index=index, texts=texts), "2 + 2?", rewards)


def sample(group: Group, *, local: bool = True, why: str = "") -> Mapping[str, Any]:
    return sample_of(group, group_advantages, local=local, why=why)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def ring(folder: Path, clock: Clock, most: int = 100_000) -> SampleRing:
    return SampleRing(folder, most, clock=clock, now=lambda: 1.0)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_sample_says_what_was_asked_generated_and_decided(tmp_path: Path) -> None:
    ring(tmp_path, Clock()).take(7, [sample(scored(), local=False, why="longer than local")])
    (found,) = lines(tmp_path / FILE)
    assert found["round"] == 7 and found["author"] == "eve" and found["task"] == "chain_sum/easy"
    assert (
        found["prompt"] == "2 + 2?" and not found["trained"] and found["why"] == "longer than local"
    )
    assert [each["reward"] for each in found["completions"]] == [1.0, 0.0]
    assert [each["advantage"] for each in found["completions"]] == pytest.approx([0.7071, -0.7071])


def test_an_episode_is_a_conversation() -> None:
    turns = (
        Turn(calls=(Call(name="add", arguments="[1]"),), text="so"),
        Turn(calls=(), text="x" * 5000),
    )
    plain = scored()
    first, second = plain.samples
    episode = first.episode.model_copy(update={"turns": turns})
    first = replace(first, episode=episode, observations=(("<b>",), ()))
    said, other = sample(replace(plain, samples=(first, second)))["completions"]
    heard = [(each["own"], each["text"][:6]) for each in said["turns"]]
    assert heard == [(True, "so"), (True, "add [1"), (False, "<b>"), (True, "xxxxxx")]
    assert len(said["turns"][3]["text"]) < 4100 and other == sample(plain)["completions"][1]


def test_at_most_one_a_second_on_average(tmp_path: Path) -> None:
    clock = Clock()
    samples = ring(tmp_path, clock)
    many = [sample(scored(index=index)) for index in range(9)]
    for number in range(50):
        samples.take(number, many)
        clock.now += 0.25
    assert len(lines(tmp_path / FILE)) == 13  # one at once, then one for each of 12.25 seconds
    clock.now += 4.0
    samples.take(50, many)
    assert len(lines(tmp_path / FILE)) == 17


def test_every_kind_has_its_turn(tmp_path: Path) -> None:
    clock = Clock()
    samples = ring(tmp_path, clock)
    kinds = [(True, True), (False, True), (False, False)]
    for number in range(6):
        samples.take(
            number,
            [
                sample(scored(), local=local, why="" if trained else "no")
                for local, trained in kinds
            ],
        )
        clock.now += 1.0
    found = [(each["local"], each["trained"]) for each in lines(tmp_path / FILE)]
    assert found == kinds * 2


def test_the_ring_never_exceeds_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    clock, most = Clock(), 20_000
    samples = ring(tmp_path, clock, most)
    for number in range(200):
        samples.take(number, [sample(scored(texts=("x" * 900, "\x1b[31m" * 50)))])
        clock.now += 1.0
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= most
    kept = [each["round"] for path in (OLDER, FILE) for each in lines(tmp_path / path)]
    assert kept == list(range(kept[0], 200)) and len(kept) >= 4


def test_long_text_of_a_stranger_is_cut(tmp_path: Path) -> None:
    huge = scored(
        texts=tuple("x" * 16_000 for _ in range(40)),
        rewards=tuple(index / 40 for index in range(40)),
    )
    ring(tmp_path, Clock(), 2 * 1024 * 1024).take(0, [sample(huge, local=False)])
    (found,) = lines(tmp_path / FILE)
    assert len(found["completions"]) == 16 and found["left_out"] == 24
    assert len(found["completions"][0]["text"]) < 4100
    assert found["completions"][0]["text"].endswith("… (12000 more characters)")


def test_a_disk_that_cannot_be_written_costs_the_samples_of_that_time_alone(tmp_path: Path) -> None:
    clock, folder = Clock(), tmp_path / "missing"
    samples = ring(folder, clock)
    with pytest.raises(OSError, match="No such file"):
        samples.take(0, [sample(scored())])
    folder.mkdir()
    clock.now += 1.0
    samples.take(1, [sample(scored())])
    assert [line["round"] for line in lines(folder / FILE)] == [1]


def test_what_became_of_each_group_of_a_round_is_told() -> None:
    tokens = (Tokens((1,), (-1.0,)),) * 2
    local, spare, dull = scored("me", 0), scored("me", 1), scored("me", 2, rewards=(1.0, 1.0))
    kept, refused, flat = scored("eve", 0), scored("eve", 1), scored("bob", 0, rewards=(0.0, 0.0))
    selection = Selection(
        generated=Generated(0, [local, spare, dull], {}, {}),  # type: ignore[arg-type]
        local=[local, dull],
        external=[kept, groups.with_tokens(scored("eve", 2), tokens)],
        refused=[Refused("eve", "near-duplicates", refused.question)],  # type: ignore[arg-type]
        skipped={},
        seconds={},
        considered=[kept, refused, flat],
    )
    fates = [
        (sample["local"], sample["trained"], sample["why"])
        for sample in samples_of(selection, group_advantages)
    ]
    assert fates == [
        (True, True, ""),
        (True, False, "not selected"),
        (True, False, "uninformative"),
        (False, True, ""),
        (False, False, "no better than local"),
        (False, False, "near-duplicates"),
        (False, False, "uninformative"),
    ]
