"""Files in a home are for its user alone, and are written nowhere else."""

import os
import stat
from pathlib import Path

import pytest

from swarm_node.common.files import keep_private, open_to_write, read_plain, write_bytes


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_and_one_that_others_could_read_are_for_the_user_alone(tmp_path):
    (tmp_path / "old").write_text("x")
    (tmp_path / "old").chmod(0o644)
    for name in ("new", "old"):
        with open_to_write(tmp_path / name) as file:
            file.write(b"y")
        assert mode(tmp_path / name) == 0o600 and (tmp_path / name).read_bytes() == b"y"


def test_a_link_is_not_followed_for_writing(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError):
        open_to_write(tmp_path / "link")
    (tmp_path / f".file.{os.getpid()}.part").symlink_to(tmp_path / "precious")
    write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "precious").read_text() == "mine" and (
        tmp_path / "file"
    ).read_bytes() == b"new"


def test_nobody_waits_for_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError):
        open_to_write(tmp_path / "pipe", append=True)
    with pytest.raises(OSError, match="not a plain file"):
        read_plain(tmp_path / "pipe")


def test_a_folder_is_closed_to_others_at_any_depth_and_links_in_it_are_left(tmp_path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    (home / "a" / "b").mkdir(parents=True)
    (home / "a" / "b" / "file").write_text("x")
    outside.write_text("x")
    (home / "link").symlink_to(outside)
    for path in (home, home / "a", home / "a" / "b"):
        path.chmod(0o755)
    outside.chmod(0o644)
    keep_private(home)
    assert [mode(path) for path in (home, home / "a", home / "a" / "b")] == [0o700] * 3
    assert mode(home / "a" / "b" / "file") == 0o600 and mode(outside) == 0o644
