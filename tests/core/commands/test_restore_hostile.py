"""A backup that somebody made up: refused in one line, before the first byte is written, with little memory."""

import hashlib
import io
import json
import os
import resource
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.fuzzing import backups
from swarm_node.commands.archive import HASHES
from swarm_node.commands.backup import backup, restore
from swarm_node.common.errors import UserError
from tests.commands import ended

KEY = ("identity.key", b"k" * 100)
STATE = ("checkpoints/00000040/state.json", b"{}")


def made(file: Path, *members: tuple[str, bytes, dict[str, Any]], list_too: bool = True) -> None:
    """A tar file with right hashes of whatever members are given; attributes of a header come third."""
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data, _ in members}
    listed: list[tuple[str, bytes, dict[str, Any]]] = [(HASHES, json.dumps(hashes).encode(), {})] * list_too
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data, changes in (*members, *listed):
            about = tarfile.TarInfo(name)
            about.size = len(data)
            for key, value in changes.items():
                setattr(about, key, value)
            tar.addfile(about, io.BytesIO(data))


def refused(file: Path, home: Path, said: str = "") -> None:
    with pytest.raises(UserError) as error:
        restore(file, home)
    line = str(error.value)
    assert "nothing was restored" in line and "\n" not in line and len(line) < 400 and said in line, line
    assert not home.exists(), "nothing is written before all of it is checked"


def test_what_is_right_is_restored(tmp_path: Path) -> None:
    made(tmp_path / "b.tar", (*KEY, {}), (*STATE, {}))
    assert restore(tmp_path / "b.tar", tmp_path / "home") == [KEY[0], STATE[0]]
    assert (tmp_path / "home" / STATE[0]).read_bytes() == b"{}"


NAMES = [
    "/etc/passwd", "../identity.key", "checkpoints/../../x", "checkpoints/00000040/../../../x", "checkpoints//a/b",
    "checkpoints/./a/b", "checkpoints/00000040/", "checkpoints/00000040", "checkpoints", "identity.key/x", "lock",
    "events.jsonl", "best/x/y", "checkpoints/00000040/.bashrc", "checkpoints/00000040/a b", "./identity.key",
    "checkpoints/00000040/\x1b[2J", "checkpoints/00000040/" + "a" * 300, "checkpoints/00000040/é", "",
    "checkpoints/1/" + "a/" * 60 + "b", "checkpoints\\1\\x", "identity.key\n", "checkpoints/1/x\n", "C:identity.key",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_no_backup_has_is_refused(tmp_path: Path, name: str) -> None:
    made(tmp_path / "b.tar", (*KEY, {}), (name, b"x", {}))
    refused(tmp_path / "b.tar", tmp_path / "home")


KINDS = [
    tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE,
    tarfile.CONTTYPE, tarfile.AREGTYPE, tarfile.GNUTYPE_SPARSE, b"Z",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", ["identity.key", "/etc/passwd", "../../x", "nowhere"])
def test_only_regular_files_are_restored(tmp_path: Path, kind: bytes, target: str) -> None:
    made(tmp_path / "b.tar", (*KEY, {}), (STATE[0], b"", {"type": kind, "linkname": target}))
    refused(tmp_path / "b.tar", tmp_path / "home")


def test_names_that_are_there_twice_or_in_each_other_are_refused(tmp_path: Path) -> None:
    made(tmp_path / "b.tar", (*KEY, {}), (*STATE, {}), (*STATE, {}))
    refused(tmp_path / "b.tar", tmp_path / "home", "twice")
    made(tmp_path / "b.tar", ("best/1/a", b"", {}), ("best/1/a/b", b"", {}))
    refused(tmp_path / "b.tar", tmp_path / "home", "as a file and as a folder")


PAX = [
    {"path": "/etc/passwd"}, {"linkpath": "/etc/passwd"}, {"size": "2"}, {"size": "-1"}, {"size": "1e9"},
    {"size": "9" * 400}, {"size": "1", "path": "x"}, {"comment": "x" * 100_000},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)},
    {"GNU.sparse.map": "0,1", "GNU.sparse.size": str(1 << 40)}, {"GNU.sparse.map": "x"}, {"hdrcharset": "BINARY"},
    {"mtime": "nan"}, {"uid": "x"},
]  # fmt: skip


@pytest.mark.parametrize("records", PAX)
def test_a_header_of_a_header_is_refused(tmp_path: Path, records: dict[str, str]) -> None:
    made(tmp_path / "b.tar", (*KEY, {}), (*STATE, {"pax_headers": records}))
    refused(tmp_path / "b.tar", tmp_path / "home")


def header(kind: bytes, size: int, name: str = "x") -> bytes:
    about = tarfile.TarInfo(name)
    about.type, about.size = kind, size
    return about.tobuf(tarfile.GNU_FORMAT)


def large_headers(kind: bytes, size: int) -> Callable[[Path], None]:
    def make(file: Path) -> None:
        file.write_bytes(header(kind, size) + bytes(9 * 1024))

    return make


def many_headers(file: Path) -> None:
    """Each of which belongs to the next: the standard library goes one call deeper for each."""
    file.write_bytes(header(tarfile.XHDTYPE, 0) * 5000 + header(tarfile.REGTYPE, 0))


def many_members(file: Path) -> None:
    file.write_bytes(b"".join(header(tarfile.REGTYPE, 0, f"best/1/{k}") for k in range(100_000)))


def global_header(file: Path) -> None:
    made(file, (*KEY, {}))
    file.write_bytes(header(tarfile.XGLTYPE, 0) + file.read_bytes())


def behind_the_end(file: Path) -> None:
    made(file, (*KEY, {}))
    file.write_bytes(file.read_bytes() + b"x")


def no_list(file: Path) -> None:
    made(file, (*KEY, {}), list_too=False)


def listing(text: bytes) -> Callable[[Path], None]:
    def make(file: Path) -> None:
        made(file, (*KEY, {}), (HASHES, text, {}), list_too=False)

    return make


def sparse_member(file: Path) -> None:
    """10 KB of which the standard library makes 1.9 GB."""
    made(file, (*KEY, {}))
    head = bytearray(header(tarfile.GNUTYPE_SPARSE, 512, STATE[0]))
    head[386 : 386 + 24] = b"00000000000\x0000000001000\x00"
    head[483:495] = b"%011o\x00" % (1900 << 20)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\x00 " % sum(head)
    file.write_bytes(bytes(head) + bytes(512) + file.read_bytes())


MADE: dict[str, Callable[[Path], object]] = {
    "a PAX header of 8 GB": large_headers(tarfile.XHDTYPE, (8 << 30) - 512),
    "a global PAX header of 8 GB": large_headers(tarfile.XGLTYPE, (8 << 30) - 512),
    "a long name of 8 GB": large_headers(tarfile.GNUTYPE_LONGNAME, (8 << 30) - 512),
    "a long link of 2^62": large_headers(tarfile.GNUTYPE_LONGLINK, 1 << 62),
    "a negative size": large_headers(tarfile.REGTYPE, -512),
    "a Solaris header": large_headers(tarfile.SOLARIS_XHDTYPE, 512),
    "5,000 headers of headers": many_headers,
    "100,000 members": many_members,
    "a global header": global_header,
    "bytes behind the end": behind_the_end,
    "no list": no_list,
    "a list that is a number": listing(b"1e999"),
    "a list that is none": listing(b"[" * 100_000),
    "a list of nothing": listing(b"{}"),
    "a list of lists": listing(json.dumps({"identity.key": [[]]}).encode()),
    "a list without text": listing(b"\xff\xfe"),
    "a list of 17 MB": listing(b" " * (17 << 20)),
    "a sparse member": sparse_member,
    "an empty file": lambda file: file.write_bytes(b""),
    "zeros": lambda file: file.write_bytes(bytes(10240)),
    "a folder": lambda file: file.mkdir(),
    "a pipe": lambda file: os.mkfifo(file),
    "a device": lambda file: file.symlink_to("/dev/zero"),
    "nothing": lambda file: None,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_a_file_made_to_fill_memory_or_the_disk_is_one_line(tmp_path: Path, name: str) -> None:
    file = tmp_path / "b.tar"
    MADE[name](file)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(file, tmp_path / "home")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "KB"


def test_what_the_disk_has_no_room_for_is_refused_before_it_is_read(tmp_path: Path) -> None:
    made(tmp_path / "b.tar", (*KEY, {}))
    os.truncate(tmp_path / "b.tar", 1 << 42)
    with pytest.raises(UserError, match=r"has 4194304 MB, and \d+ MB are free"):
        restore(tmp_path / "b.tar", tmp_path / "home")


def test_a_size_above_8_gb_fits_into_its_header(tmp_path: Path) -> None:
    """Here one of 16 bytes, written as the standard library writes large ones."""
    assert header(tarfile.REGTYPE, 9 << 30)[124:136] == b"\x80" + (9 << 30).to_bytes(11, "big")
    name = b"best/00000001/model.safetensors"
    made(tmp_path / "b.tar", (*KEY, {}), (name.decode(), b"0123456789abcdef", {}))
    data = bytearray((tmp_path / "b.tar").read_bytes())
    place = data.index(name)
    data[place + 124 : place + 136] = b"\x80" + (16).to_bytes(11, "big")
    data[place + 148 : place + 156] = b" " * 8
    data[place + 148 : place + 156] = b"%06o\x00 " % sum(data[place : place + 512])
    (tmp_path / "b.tar").write_bytes(data)
    restore(tmp_path / "b.tar", tmp_path / "home")
    assert (tmp_path / "home" / name.decode()).read_bytes() == b"0123456789abcdef"


def test_what_restore_would_refuse_is_not_kept(tmp_path: Path) -> None:
    folder = tmp_path / "home/checkpoints/00000040"
    folder.mkdir(parents=True)
    (tmp_path / "home/identity.key").write_bytes(b"k")
    (folder / "state.json").touch()
    (folder / ("a" * 120)).touch()
    with pytest.raises(UserError, match="has a name that restore would refuse"):
        backup(tmp_path / "home", tmp_path / "b.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_the_command_says_it_in_one_line(tmp_path: Path) -> None:
    sparse_member(tmp_path / "b.tar")
    done = ended("home", "restore", tmp_path / "b.tar", "--home", tmp_path / "home")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "nothing was restored" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_changed_in_a_backup_it_is_whole_or_refused(seed: int) -> None:
    tally = backups.fuzz(Random(seed), 400)
    assert tally.failures == []
    assert tally.outcomes["restored"] > 0 and len(tally.outcomes) > 5, tally.outcomes
