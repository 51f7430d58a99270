"""Keys, peer ids, signatures."""

from hypothesis import given
from hypothesis import strategies as st

from protocol.identity import Identity, public_key
from protocol.messages import PeerId

seeds = st.binary(min_size=32, max_size=32)


def test_a_new_identity_is_new() -> None:
    assert Identity.create().peer_id != Identity.create().peer_id


def test_showing_an_identity_does_not_show_its_secret() -> None:
    identity = Identity.from_seed_bytes(b"s" * 32)
    assert (
        f"{identity} {identity!r}" == f"Identity({identity.peer_id}) Identity({identity.peer_id})"
    )


@given(seeds)
def test_key_bytes_give_the_same_identity_back(seed: bytes) -> None:
    identity = Identity.from_seed_bytes(seed)
    assert Identity.from_key_bytes(identity.key_bytes()).peer_id == identity.peer_id


@given(seeds, st.integers(0, 51), st.characters())
def test_a_peer_id_with_a_changed_character_never_names_the_same_key(
    seed: bytes, position: int, char: str
) -> None:
    name = Identity.from_seed_bytes(seed).peer_id
    changed = PeerId(name[:position] + char + name[position + 1 :])
    try:
        key = public_key(changed)
    except ValueError:
        return
    assert changed == name or key != public_key(name)
