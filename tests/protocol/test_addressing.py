"""Question seeds."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from protocol import limits
from protocol.addressing import HELD_OUT, HELD_OUT_ROUNDS, is_held_out, question_seed
from protocol.identity import Identity
from protocol.messages import PeerId, Round


@given(st.text(max_size=60), st.integers(0, limits.MAX_ROUND))
def test_a_seed_is_one_a_question_can_hold(author: str, round: int) -> None:
    assert 0 <= question_seed(PeerId(author), Round(round)) <= limits.MAX_SEED


def test_rounds_and_authors_get_seeds_of_their_own(ann: Identity, bob: Identity) -> None:
    seeds = {question_seed(who.peer_id, Round(round)) for who in (ann, bob) for round in range(500)}
    assert len(seeds) == 1000


def test_seeds_use_the_whole_range(ann: Identity) -> None:
    seeds = [question_seed(ann.peer_id, Round(round)) for round in range(2000)]
    assert 0.45 < sum(seeds) / len(seeds) / limits.MAX_SEED < 0.55


def raw(author: str, round: int) -> int:
    """The seed by version 0.1.0, whatever it hits."""
    text = f"swarm-node/{limits.VERSION}/question-seed\0{author}\0{round}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (limits.MAX_SEED + 1)


def test_no_round_of_a_peer_has_held_out_questions_or_neighbours_of_them(ann: Identity) -> None:
    hits = [round for round in range(400_000) if is_held_out(raw(ann.peer_id, round))]
    assert hits, "an adversary searches so"
    assert not any(is_held_out(question_seed(ann.peer_id, Round(round))) for round in hits)
    held = [question_seed(HELD_OUT, Round(round)) for round in range(HELD_OUT_ROUNDS)]
    assert held == [raw(HELD_OUT, round) for round in range(HELD_OUT_ROUNDS)]
    assert all(is_held_out(seed + near) for seed in held for near in (-255, 0, 255))


def test_all_other_seeds_are_those_of_version_0_1(ann: Identity) -> None:
    rounds = [round for round in range(2000) if not is_held_out(raw(ann.peer_id, round))]
    assert [question_seed(ann.peer_id, Round(round)) for round in rounds] == [raw(ann.peer_id, each) for each in rounds]
