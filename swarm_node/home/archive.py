"""The file of a backup, and its reader, which trusts nothing in it.

Its first line lists the files: a JSON object of names, each with a size in bytes and the SHA-256 of
its content. The contents follow in that order, and nothing else. So a reader has nothing to follow:
no links, devices, sparse files or packed ones, and no size but that of the backup itself.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, BinaryIO

import msgspec

from swarm_node.common.errors import printable
from swarm_node.common.files import has_holes
from swarm_node.common.parsing import parse_typed
from swarm_node.home.asks import ASKS_FILE
from swarm_node.home.folder import KEY_FILE

FOLDERS = ("checkpoints", "best")
FILES = (
    KEY_FILE, ASKS_FILE, "peers.json", "exchange.json", "manifest.json", "swarm.manifest",
    "swarm.card",
)  # fmt: skip
MAX_SMALL_BYTES = 16 * 1024 * 1024  # of a file that belongs to no checkpoint
MAX_LIST_BYTES = 1024 * 1024
CHUNK = 1024 * 1024  # bytes
# A checkpoint's file in such a folder
BELOW = re.compile(r"\d{1,20}(/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}){1,4}")

Entry = tuple[Annotated[int, msgspec.Meta(ge=0)], str]  # bytes, and SHA-256
Listed = Mapping[str, Entry]  # by name


class BadArchive(Exception):
    """The file is not a backup that `backup` wrote. The text says why."""


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file in the archive, and where its bytes are."""

    offset: int  # bytes
    size: int  # bytes
    digest: str  # SHA-256 of its bytes, as hexadecimal digits


def head(listed: Listed) -> bytes:
    """The first line of a backup of these files."""
    return json.dumps(listed).encode() + b"\n"


def survey(file: BinaryIO) -> dict[str, ArchivedFile]:
    """The members by name, each of which has the listed hash. Reads the whole file.

    Raises BadArchive, and OSError.
    """
    if has_holes(file.fileno()):
        raise BadArchive("parts of it were never written: copy it again, by cp --sparse=never")
    line = file.readline(MAX_LIST_BYTES)
    try:
        listed: Listed = parse_typed(line, dict[str, Entry])
    except ValueError as error:
        raise BadArchive("its list of files cannot be read") from error
    members: dict[str, ArchivedFile] = {}
    place = len(line)
    for name, (size, digest) in listed.items():
        if not may_hold(name):
            raise BadArchive(f"it holds {printable(name, 100)!r}")
        if "/" not in name and size > MAX_SMALL_BYTES:
            raise BadArchive(f"{name} is above {MAX_SMALL_BYTES >> 20} MB")
        for parent in map(str, PurePosixPath(name).parents):
            if parent in listed:
                raise BadArchive(f"it holds {parent!r} as a file and as a folder")
        members[name] = ArchivedFile(place, size, digest)
        place += size
    if place != file.seek(0, os.SEEK_END):
        raise BadArchive("it is cut off, or there is something after its end")
    if any(_hash(file, member) != member.digest for member in members.values()):
        raise BadArchive("what is in it has changed")
    return members


def may_hold(name: str) -> bool:
    """Whether a backup may hold a file of this name."""
    folder, _, below = name.partition("/")
    return name in FILES or (folder in FOLDERS and BELOW.fullmatch(below) is not None)


def pieces(file: BinaryIO, member: ArchivedFile) -> Iterator[bytes]:
    """The bytes of a member. Raises BadArchive where the file has become shorter."""
    file.seek(member.offset)
    left = member.size
    while left:
        piece = file.read(min(left, CHUNK))
        if not piece:
            raise BadArchive("it is cut off")
        left -= len(piece)
        yield piece


def _hash(file: BinaryIO, member: ArchivedFile) -> str:
    found = hashlib.sha256()
    for piece in pieces(file, member):
        found.update(piece)
    return found.hexdigest()
