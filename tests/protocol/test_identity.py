"""Keys, peer ids, signatures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import limits
from protocol.identity import Identity, peer_id, public_key, verify
from protocol.messages import PeerId
from protocol.versions import CURRENT

seeds = st.binary(min_size=32, max_size=32)
P = 2**255 - 19


def test_a_new_identity_is_new() -> None:
    assert Identity.create().peer_id != Identity.create().peer_id


def test_showing_an_identity_does_not_show_its_secret() -> None:
    identity = Identity.from_seed_bytes(b"s" * 32)
    assert f"{identity} {identity!r}" == f"Identity({identity.peer_id}) Identity({identity.peer_id})"


@given(seeds)
def test_key_bytes_give_the_same_identity_back(seed: bytes) -> None:
    identity = Identity.from_seed_bytes(seed)
    assert Identity.from_key_bytes(identity.key_bytes()).peer_id == identity.peer_id


@given(seeds, st.integers(0, 68 * 8 - 1))
def test_key_bytes_with_a_flipped_bit_are_refused(seed: bytes, bit: int) -> None:
    number = int.from_bytes(Identity.from_seed_bytes(seed).key_bytes(), "big") ^ (1 << bit)
    with pytest.raises(ValueError, match=r"private|belong"):
        Identity.from_key_bytes(number.to_bytes(68, "big"))


@given(st.binary(max_size=80))
def test_other_bytes_are_no_key(data: bytes) -> None:
    with pytest.raises(ValueError, match="private key"):
        Identity.from_key_bytes(data)


@given(seeds)
def test_a_peer_id_spells_its_public_key(seed: bytes) -> None:
    identity = Identity.from_seed_bytes(seed)
    assert len(identity.peer_id) == limits.PEER_ID_CHARS
    assert identity.peer_id.startswith("12D3KooW")
    assert peer_id(public_key(identity.peer_id)) == identity.peer_id


@given(seeds, st.integers(0, 51), st.characters())
def test_a_peer_id_with_a_changed_character_never_names_the_same_key(seed: bytes, position: int, char: str) -> None:
    name = Identity.from_seed_bytes(seed).peer_id
    changed = PeerId(name[:position] + char + name[position + 1 :])
    try:
        key = public_key(changed)
    except ValueError:
        return
    assert changed == name or key != public_key(name)


@given(
    st.one_of(
        st.text(max_size=80), st.text(alphabet="123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefz", min_size=52, max_size=52)
    )
)
def test_other_text_is_no_peer_id(text: str) -> None:
    with pytest.raises(ValueError, match="peer id"):
        public_key(PeerId(text))


def test_a_peer_id_of_endless_length_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="1000000 characters"):
        public_key(PeerId("1" * 1_000_000))


def test_peer_ids_of_other_key_types_are_refused() -> None:
    for other in (
        "QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N",  # sha2-256 multihash of an RSA key
        "16Uiu2HAm9GwvrYzhSGXc6K2Ydk6nxT1D7LLdAWRHTRrQxWhTZPKF",  # secp256k1: other length
    ):
        with pytest.raises(ValueError, match="peer id"):
            public_key(PeerId(other))


def test_a_key_that_anybody_can_sign_for_is_no_peer() -> None:
    order_8 = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
    spelled_twice = [number.to_bytes(32, "little") for number in (P, P + 1, P + 18)]
    small_order = [number.to_bytes(32, "little") for number in (0, 1, P - 1, 1 << 255, 1 | 1 << 255)]
    for public in (bytes.fromhex(order_8), *spelled_twice, *small_order):
        with pytest.raises(ValueError, match="anybody can sign"):
            public_key(peer_id(public))


def test_without_that_refusal_a_signature_would_need_no_secret() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    neutral = (1).to_bytes(32, "little")
    Ed25519PublicKey.from_public_bytes(neutral).verify(neutral + bytes(32), b"any message")  # does not raise


@given(seeds, st.binary(max_size=64))
def test_a_signature_counts_for_its_author_message_domain_and_swarm_only(seed: bytes, message: bytes) -> None:
    identity, other = Identity.from_seed_bytes(seed), Identity.from_seed_bytes(bytes(reversed(seed[1:])) + b"x")
    here = CURRENT.domain("rollout-group", "here")
    signature = identity.sign(here, message)
    assert verify(identity.peer_id, here, message, signature)
    assert not verify(identity.peer_id, here, message + b"\0", signature)
    assert not verify(identity.peer_id, CURRENT.domain("announcement", "here"), message, signature)
    assert not verify(identity.peer_id, CURRENT.domain("rollout-group", "there"), message, signature)
    assert other.peer_id == identity.peer_id or not verify(other.peer_id, here, message, signature)


def test_a_signature_cannot_be_varied_by_others() -> None:
    """S + L is the classic second signature; with it the same message would travel under two envelopes."""
    order = 2**252 + 27742317777372353535851937790883648493
    identity, here = Identity.from_seed_bytes(b"m" * 32), CURRENT.domain("rollout-group", "here")
    signature = identity.sign(here, b"message")
    second = signature[:32] + (int.from_bytes(signature[32:], "little") + order).to_bytes(32, "little")
    assert not verify(identity.peer_id, here, b"message", second)
