"""Hostile peers: what they send is counted, and training goes on as if they were not there."""

from random import Random

import pytest
import torch

from protocol import codec
from protocol.messages import Round
from protocol.versions import CURRENT
from swarm_node.network.in_memory import MemorySwarm
from tests.models import (
    IDENTITIES,
    Digits,
    join,
    make_node,
    make_swarm,
    question,
    run_together,
    text_group,
    weights_of,
)

EVE = IDENTITIES[8]


def sealed(group) -> bytes:
    return codec.seal(group, EVE, "test")


def generated(texts=("1", "a"), round: int = 0, index: int = 0, author: str = EVE.peer_id):
    return text_group(
        [0.0] * len(texts), list(texts), author=author, round=round, index=index
    ).message()


def rounds_with(attack, rounds: int = 2):
    """Two honest nodes; `attack(now)` gives the bytes that Eve sends to both before they
    collect.
    """
    swarm = MemorySwarm(Random(0))
    nodes = make_swarm(2, swarm)
    for now in map(Round, range(rounds)):
        for data in attack(now):
            swarm.transmit(data, EVE.peer_id, now)
        reports = run_together(nodes, 1, now)[0]
    return nodes, reports


@pytest.mark.slow
def test_no_bytes_that_are_not_a_message_change_anything() -> None:
    rng = Random(1)
    honest = sealed(generated())

    def garbage(now):
        yield from (b"", b"\x00", b"{" * 60_000, rng.randbytes(1000), b"x" * 1_000_000)
        for _ in range(20):
            broken = bytearray(honest)
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
            yield bytes(broken)
        yield honest[:-1]
        yield honest + b" "

    nodes, reports = rounds_with(garbage)
    clean, _ = rounds_with(lambda now: [])
    for attacked, free in zip(nodes, clean, strict=True):
        assert all(map(torch.equal, weights_of(attacked), weights_of(free)))
    for report in reports:
        assert sum(report.rejected.values()) == 2 * 27 and report.step.optimizer_steps == 1


def test_a_thousand_completions_fit_into_no_message() -> None:
    payload = codec.encode(generated(["1"] * 64))
    one = b'{"ended":true,"trace":"","turns":[{"calls":[],"text":"1"}]}'
    assert payload.count(one) == 64
    many = payload.replace(one, b",".join([one] * 16))
    assert many.count(one) == 1024
    signature = EVE.sign(CURRENT.domain("rollout-group", "test"), many)
    _, reports = rounds_with(lambda now: [signature + many], rounds=1)
    assert [report.rejected for report in reports] == [{"malformed": 1}] * 2


def test_replays_are_counted_and_a_reworded_group_is_not_used_twice() -> None:
    first, second = sealed(generated(["1", "a"])), sealed(generated(["2", "b"]))
    used: list[int] = []

    class Watching(Digits):
        def score(self, completions):
            used.extend(
                asked.index for asked, _ in completions if asked.seed == generated().question.seed
            )
            return super().score(completions)

    swarm = MemorySwarm(Random(0))
    node = make_node(0, join(swarm, 0), Watching(), external=4)
    for now in map(Round, range(3)):
        for data in (first, first, second):
            swarm.transmit(data, EVE.peer_id, now)
        report = node.run_round(now)
    assert used == [0]
    assert report.rejected == {"replayed": 7}


def test_groups_of_right_completions_only_are_never_trained_on_however_large_and_many() -> None:
    swarm = MemorySwarm(Random(0))
    node, bob = make_node(0, join(swarm, 0), external=4), join(swarm, 1)
    for index in range(30):
        swarm.transmit(sealed(generated(["1"] * 64, index=index)), EVE.peer_id, Round(0))
    bob.publish([generated(author=IDENTITIES[1].peer_id)], Round(0))
    batch = node.select(node.produce(Round(0)))
    assert [group.author for group in batch.external] == [IDENTITIES[1].peer_id]
    assert len(node.inbox) == 0 and node.train(batch).external_informative == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "texts",
    [
        ["1" * 10_000, "a"], ["7" + "x" * 900] + ["y" * 900] * 63, ["<eos>1", "<pad><bos>"],
        ["\u202e1\x00\x1b[2J", "\U0001f600" * 100], ["", "1"], ["\n" * 2000, "1"],
    ],
    ids=["longer than any context", "as much as a message holds", "control tokens", "odd signs",
        "empty", "lines"],
)  # fmt: skip
def test_any_text_that_may_be_published_is_trained_on_or_skipped_and_never_raises(texts) -> None:
    _, reports = rounds_with(lambda now: [sealed(generated(texts, now))])
    for report in reports:
        assert report.rejected == {} and report.step.optimizer_steps == 1
        assert set(report.skipped) <= {"longer than the context"}


def test_a_flood_of_one_peer_fills_its_share_of_the_inbox_only() -> None:
    swarm = MemorySwarm(Random(0))
    node = make_node(0, join(swarm, 0), external=0)
    bob = join(swarm, 1)
    bob.publish([generated(author=IDENTITIES[1].peer_id)], Round(0))
    for index in range(256):
        swarm.transmit(sealed(generated(index=index)), EVE.peer_id, Round(0))
    node.run_round(Round(0))
    assert len(node.inbox) == 32 + 1 and node.inbox.candidates()[0].author == IDENTITIES[1].peer_id


def test_a_question_of_a_peer_is_rebuilt_here_and_its_author_decides_nothing_but_the_answer() -> (
    None
):
    swarm = MemorySwarm(Random(0))
    node = make_node(0, join(swarm, 0), external=1)
    swarm.transmit(sealed(generated(["5", "no"])), EVE.peer_id, Round(0))
    (group,) = node.select(node.produce(Round(0))).external
    assert [group.prompt] == Digits().prompts([question(EVE.peer_id)]) and group.rewards == (
        1.0,
        0.0,
    )
