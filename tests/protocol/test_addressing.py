"""Question seeds."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from protocol import limits
from protocol.addressing import HELD_OUT, HELD_OUT_ROUNDS, fixed_seed, is_held_out, question_seed
from protocol.identity import Identity
from protocol.messages import PeerId, Round


@given(st.text(max_size=60), st.integers(0, limits.MAX_ROUND))
def test_a_seed_is_one_a_question_can_hold(author: str, round: int) -> None:
    assert 0 <= question_seed("s", PeerId(author), Round(round)) <= limits.MAX_SEED


def test_rounds_authors_and_swarms_get_seeds_of_their_own(ann: Identity, bob: Identity) -> None:
    asked = [(swarm, who.peer_id) for swarm in ("here", "there") for who in (ann, bob)]
    assert (
        len({question_seed(*each, Round(round)) for each in asked for round in range(500)}) == 2000
    )


def test_seeds_use_the_whole_range(ann: Identity) -> None:
    seeds = [question_seed("s", ann.peer_id, Round(round)) for round in range(2000)]
    assert 0.45 < sum(seeds) / len(seeds) / limits.MAX_SEED < 0.55


def raw(*words: object, version: int = 2) -> int:
    """The seed that protocol/README.md defines, before it is moved away from held-out seeds."""
    text = f"swarm-node/{version}/question-seed\0" + "\0".join(map(str, words))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") % (limits.MAX_SEED + 1)


def test_no_round_of_a_peer_has_held_out_questions_or_neighbours_of_them(ann: Identity) -> None:
    hits = [round for round in range(400_000) if is_held_out(raw("s", ann.peer_id, round))]
    assert hits, "an adversary searches so"
    assert not any(is_held_out(question_seed("s", ann.peer_id, Round(round))) for round in hits)
    held = [fixed_seed(HELD_OUT, Round(round)) for round in range(HELD_OUT_ROUNDS)]
    assert held == [raw(HELD_OUT, round, version=1) for round in range(HELD_OUT_ROUNDS)], (
        "evaluations compare"
    )
    assert all(is_held_out(seed + near) for seed in held for near in (-255, 0, 255))


def test_all_other_seeds_are_the_hash_itself(ann: Identity) -> None:
    seeds = {round: raw("s", ann.peer_id, round) for round in range(2000)}
    for round, seed in seeds.items():
        assert is_held_out(seed) or question_seed("s", ann.peer_id, Round(round)) == seed
