"""Question seeds."""

from hypothesis import given
from hypothesis import strategies as st

from protocol import limits
from protocol.addressing import question_seed
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
