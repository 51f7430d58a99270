"""The tar file of a backup, read by somebody who trusts nothing in it.

Of tar only what `backup` writes is known: regular files. So there are no links, devices, sparse files, second names or
headers of headers. The standard library takes single headers apart, and never follows one: following them, a small file
can make it read, hold or write a large one.
"""

import hashlib
import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import BinaryIO

from swarm_node.commands.home import KEY_FILE

HASHES = "swarm-node-backup.json"  # the last member: a file that was cut off lacks it
FOLDERS = ("checkpoints", "best")
FILES = (KEY_FILE, "peers.json", "exchange.json", "manifest.json")
BLOCK = tarfile.BLOCKSIZE  # 512 bytes: headers are one, files are filled up to a multiple
MAX_MEMBERS = 4096
MAX_SMALL_BYTES = 16 * 1024 * 1024  # of a file beside the checkpoints
MAX_LIST_BYTES = 1024 * 1024  # of the list of hashes
CHUNK = 1024 * 1024  # bytes
BELOW = re.compile(r"\d{1,20}(/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}){1,4}")  # in a folder: of a checkpoint


class BadArchive(Exception):
    """It is none that `backup` wrote. The text says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """A file in the archive, and where its bytes are."""

    name: str
    offset: int  # bytes
    size: int  # bytes
    digest: str = ""  # SHA-256 of its bytes, as hexadecimal digits, once they were read


def survey(file: BinaryIO) -> dict[str, Member]:
    """The members by name, each with the hash that the list at the end has for it. Reads the whole file.

    Raises BadArchive, and OSError.
    """
    members: dict[str, Member] = {}
    for member in _members(file):
        if member.name != HASHES and not may_hold(member.name):
            raise BadArchive(f"it holds {member.name[:100]!r}")
        if member.name in members or HASHES in members:
            raise BadArchive(f"it holds {member.name!r} twice, or behind its end")
        most = MAX_LIST_BYTES if member.name == HASHES else MAX_SMALL_BYTES
        if "/" not in member.name and member.size > most:
            raise BadArchive(f"{member.name} is above {most >> 20} MB")
        members[member.name] = member
        if len(members) > MAX_MEMBERS:
            raise BadArchive(f"it holds more than {MAX_MEMBERS} files")
    if HASHES not in members:
        raise BadArchive("it is cut off")
    for parent in (str(parent) for name in members for parent in PurePosixPath(name).parents):
        if parent in members:
            raise BadArchive(f"it holds {parent!r} as a file and as a folder")
    listed = _listed(file, members.pop(HASHES))
    found = {name: replace(member, digest=_hash(file, member)) for name, member in members.items()}
    if {name: member.digest for name, member in found.items()} != listed:
        raise BadArchive("what is in it has changed")
    return found


def may_hold(name: str) -> bool:
    """Whether it is the name of a file that a backup is for."""
    folder, _, below = name.partition("/")
    fits = len(name) <= tarfile.LENGTH_NAME
    return name in FILES or (fits and folder in FOLDERS and BELOW.fullmatch(below) is not None)


def pieces(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """The bytes of a member. Raises BadArchive where the file has become shorter."""
    file.seek(member.offset)
    left = member.size
    while left:
        piece = file.read(min(left, CHUNK))
        if not piece:
            raise BadArchive("it is cut off")
        left -= len(piece)
        yield piece


def _hash(file: BinaryIO, member: Member) -> str:
    found = hashlib.sha256()
    for piece in pieces(file, member):
        found.update(piece)
    return found.hexdigest()


def _members(file: BinaryIO) -> Iterator[Member]:
    """In their order, each within the bytes that are there. Only headers are read."""
    end, place = file.seek(0, os.SEEK_END), 0
    while (about := _header(file, place)) is not None:
        place += BLOCK
        if about.type != tarfile.REGTYPE or about.linkname:
            raise BadArchive(f"{about.name[:100]!r} in it is no regular file")
        if not 0 <= about.size <= end - place:
            raise BadArchive("it is cut off")
        yield Member(about.name, place, about.size)
        place += -(-about.size // BLOCK) * BLOCK
    file.seek(place)
    if end - place > tarfile.RECORDSIZE or file.read(tarfile.RECORDSIZE).strip(b"\0"):
        raise BadArchive("something stands behind its end")


def _header(file: BinaryIO, place: int) -> tarfile.TarInfo | None:
    """None for the block of zeros at the end."""
    file.seek(place)
    block = file.read(BLOCK)
    if len(block) == BLOCK and not block.strip(b"\0"):
        return None
    try:
        return tarfile.TarInfo.frombuf(block, "ascii", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise BadArchive(f"it is cut off, or no tar file: {error}") from error


def _listed(file: BinaryIO, member: Member) -> object:
    try:
        return json.loads(b"".join(pieces(file, member)))
    except (ValueError, RecursionError) as error:
        raise BadArchive("its list of hashes cannot be read") from error
