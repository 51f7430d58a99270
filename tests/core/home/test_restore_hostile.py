"""A backup that somebody made up: refused in one line, before the first byte is written, with
little memory.
"""

import hashlib
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

from lab.fuzzing import backups
from swarm_node.common.errors import UserError
from swarm_node.home.backup import backup, restore
from swarm_node.home.folder import load_identity

KEY = ("identity.key", b"k" * 100)


def made(*files: tuple[str, bytes]) -> bytes:
    """A backup with the right sizes and hashes of the given files."""
    listed = {name: (len(data), hashlib.sha256(data).hexdigest()) for name, data in files}
    return json.dumps(listed).encode() + b"\n" + b"".join(data for _, data in files)


def refused(file: Path, home: Path, said: str = "") -> None:
    with pytest.raises(UserError) as error:
        restore(file, home)
    line = str(error.value)
    assert (
        "nothing was restored" in line and "\n" not in line and len(line) < 400 and said in line
    ), line
    assert not home.exists(), "nothing is written before all of it is checked"


NAMES = [
    "/etc/passwd", "../identity.key", "checkpoints/../../x", "checkpoints/00000040/../../../x",
    "checkpoints//a/b", "checkpoints/./a/b", "checkpoints/00000040/", "checkpoints/00000040",
    "checkpoints", "identity.key/x", "lock", "events.jsonl", "best/x/y",
    "checkpoints/00000040/.bashrc", "checkpoints/00000040/a b", "./identity.key",
    "checkpoints/00000040/\x1b[2J", "checkpoints/00000040/" + "a" * 300, "checkpoints/00000040/é",
    "", "checkpoints/1/" + "a/" * 60 + "b", "checkpoints\\1\\x", "identity.key\n",
    "checkpoints/1/x\n", "C:identity.key",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_backup_has_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "b").write_bytes(made(KEY, (name, b"x")))
    refused(tmp_path / "b", tmp_path / "home", "it holds ")


def listing(entry: object) -> bytes:
    """A backup whose list has this entry for its key."""
    return json.dumps({KEY[0]: entry}).encode() + b"\n" + KEY[1]


DIGEST = hashlib.sha256(KEY[1]).hexdigest()
MADE: dict[str, tuple[bytes, str]] = {  # the file, and a part of the error line
    "a file in a file": (made(("best/1/a", b""), ("best/1/a/b", b"")), "as a file and as a folder"),
    "a negative size": (listing([-1, DIGEST]), "list"),
    "a size of 2^62": (listing([1 << 62, DIGEST]), "above 16 MB"),
    "a size of 400 digits": (b'{"identity.key": [' + b"9" * 400 + b', ""]}\n', "above 16 MB"),
    "a size of 5,000 digits": (b'{"best/1/x": [' + b"9" * 5000 + b', ""]}\n', "list"),
    "a size that is not whole": (listing([99.5, DIGEST]), "list"),
    "a key of 17 MB": (made((KEY[0], bytes(17 << 20))), "above 16 MB"),
    "a checkpoint of 2^40": (b'{"best/1/x": [%d, ""]}\n' % (1 << 40), "cut off"),
    "too few bytes": (made(KEY)[:-1], "cut off"),
    "bytes behind the end": (made(KEY) + b"x", "after its end"),
    "other bytes": (made(KEY)[:-1] + b"x", "has changed"),
    "another hash": (listing([100, "0" * 64]), "has changed"),
    "another object": (listing({"size": 100}), "list"),
    "no list": (KEY[1], "list"),
    "a list that is a number": (b"1e999\n", "list"),
    "a list that does not end": (b"[" * 100_000, "list"),
    "a deep list": (b'{"identity.key": ' + b"[" * 100_000 + b"\n", "list"),
    "a list without text": (b"\xff\xfe\n", "list"),
    "a list of 17 MB": (b" " * (17 << 20), "list"),
    "an empty file": (b"", "list"),
    "zeros": (bytes(10240), "list"),
}
OTHERS: dict[str, Callable[[Path], object]] = {
    "a folder": lambda file: file.mkdir(),
    "a pipe": lambda file: os.mkfifo(file),
    "a device": lambda file: file.symlink_to("/dev/zero"),
    "nothing": lambda file: None,
}


@pytest.mark.parametrize("name", [*MADE, *OTHERS])
def test_a_file_made_to_fill_memory_or_the_disk_is_one_line(tmp_path: Path, name: str) -> None:
    file, (content, said) = tmp_path / "b", MADE.get(name, (b"", ""))
    OTHERS[name](file) if name in OTHERS else file.write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(file, tmp_path / "home", said)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "KB"


def test_what_the_disk_has_no_room_for_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(made(KEY))
    os.truncate(tmp_path / "b", 1 << 42)
    with pytest.raises(UserError, match=r"has 4194304 MB, and \d+ MB are free"):
        restore(tmp_path / "b", tmp_path / "home")


def test_what_restore_would_refuse_is_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "home/checkpoints/00000040"
    folder.mkdir(parents=True)
    (tmp_path / "home/identity.key").write_bytes(b"k")
    (folder / "state.json").touch()
    (folder / ("a" * 120)).touch()
    with pytest.raises(UserError, match="has a name that restore would refuse"):
        backup(tmp_path / "home", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_changed_in_a_backup_it_is_whole_or_refused(seed: int) -> None:
    tally = backups.fuzz(Random(seed), 400)
    assert tally.failures == []
    assert tally.outcomes["restored"] > 0 and len(tally.outcomes) > 5, tally.outcomes


def test_a_backup_with_holes_is_refused_before_it_is_hashed(tmp_path: Path) -> None:
    """Somebody made 30 GB of nothing in a second: to hash it took minutes, and then to write it."""
    size = 30 << 30
    head = json.dumps({KEY[0]: (len(KEY[1]), DIGEST), "best/1/x": (size, "0" * 64)}).encode()
    file = tmp_path / "b"
    with file.open("wb") as content:
        content.write(head + b"\n" + KEY[1])
        content.truncate(content.tell() + size)
    began = time.process_time()
    with patch("shutil.disk_usage", return_value=shutil._ntuple_diskusage(1 << 50, 0, 1 << 50)):
        refused(file, tmp_path / "home", "cp --sparse=never")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name", ["manifest.json", "checkpoints/00000001/notes.txt"])
def test_a_link_in_a_home_is_not_kept(tmp_path: Path, name: str) -> None:
    """A home that a stranger made may hold a link to any file of this user."""
    home = tmp_path / "home"
    load_identity(home)
    (home / "checkpoints" / "00000001").mkdir(parents=True)
    (home / "checkpoints" / "00000001" / "state.json").write_text("{}")
    (tmp_path / "secret").write_text("secret")
    (home / name).symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match="it is a link"):
        backup(home, tmp_path / "b")
    (home / name).unlink()
    with (home / name).open("wb") as content:
        content.truncate(1 << 40)
    with pytest.raises(UserError, match="too large, or a sparse file"):
        backup(home, tmp_path / "b")
    assert not (tmp_path / "b").exists()
