"""The identity on disk."""

import os
import stat
from pathlib import Path

import pytest

from protocol.identity import Identity
from swarm_node.common.errors import UserError
from swarm_node.home.folder import load_or_create


def test_the_first_start_makes_an_identity_and_the_next_finds_it(tmp_path: Path) -> None:
    path = tmp_path / "home" / "identity.key"
    assert load_or_create(path).peer_id == load_or_create(path).peer_id


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "home" / "identity.key"
    before = os.umask(0)
    try:
        load_or_create(path)
    finally:
        os.umask(before)
    assert (
        stat.S_IMODE(path.stat().st_mode) == 0o600
        and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    )


def test_nothing_else_is_left_in_the_folder(tmp_path: Path) -> None:
    load_or_create(tmp_path / "identity.key")
    assert [path.name for path in tmp_path.iterdir()] == ["identity.key"]


def test_the_file_has_the_form_that_libp2p_reads(tmp_path: Path) -> None:
    path = tmp_path / "identity.key"
    identity = load_or_create(path)
    data = path.read_bytes()
    assert (
        data[:4].hex() == "08011240"
        and Identity.from_seed_bytes(data[4:36]).peer_id == identity.peer_id
    )
    assert len(data) == 68


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o777])
def test_a_key_that_others_may_open_is_refused_and_left_alone(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "identity.key"
    load_or_create(path)
    path.chmod(mode)
    before = path.read_bytes()
    with pytest.raises(UserError, match="chmod 600"):
        load_or_create(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        bytes(68),
        b"-----BEGIN PRIVATE KEY-----\n" * 100,
        bytes.fromhex("08011240") + bytes(64),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "identity.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(UserError, match="move it away"):
        load_or_create(path)
    assert path.read_bytes() == content


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(UserError, match="not a regular file"):
        load_or_create(pipe)
    with pytest.raises(UserError, match="key file"):
        load_or_create(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="No such file"):
        load_or_create(tmp_path / "link")


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="key file") as caught:
        load_or_create(tmp_path / "file" / "identity.key")
    assert "\n" not in str(caught.value)
