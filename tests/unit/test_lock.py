"""Locks have every dependency, by hash, within the ranges of pyproject.toml, and p2pd is the binary that we say."""

import hashlib
import json
import platform
import re
import sys
import tomllib
from base64 import urlsafe_b64encode
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "docker" / "locks" / "cpu-linux-x86_64-py311.txt"
LINE = re.compile(r"([a-z0-9.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})")


def locked() -> dict[str, tuple[str, str]]:
    found = {}
    for line in LOCK.read_text().splitlines()[1:]:
        match = LINE.fullmatch(line)
        assert match, line
        found[canonicalize_name(match[1])] = (match[2], match[3])
    return found


def test_every_dependency_is_locked_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for text in [*project["dependencies"], *project["optional-dependencies"]["libp2p"]]:
        wanted = Requirement(text)
        version, _ = locked()[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), text


def test_the_bill_of_materials_has_the_same_files() -> None:
    bill = json.loads(LOCK.with_suffix(".cdx.json").read_text())
    parts = {canonicalize_name(it["name"]): (it["version"], it["hashes"][0]["content"]) for it in bill["components"]}
    assert parts == locked()


def test_the_image_installs_from_it() -> None:
    assert f"ARG LOCK=docker/locks/{LOCK.name}" in (ROOT / "Dockerfile").read_text()


def test_p2pd_is_the_file_of_the_locked_wheel_and_of_security_md() -> None:
    installed = distribution("hivemind")
    assert installed.version == locked()["hivemind"][0]
    (entry,) = [each for each in installed.files or () if each.name == "p2pd"]
    digest = hashlib.sha256(Path(str(entry.locate())).read_bytes()).digest()
    assert entry.hash is not None and entry.hash.mode == "sha256"
    assert entry.hash.value == urlsafe_b64encode(digest).rstrip(b"=").decode()
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        assert digest.hex() in (ROOT / "SECURITY.md").read_text()
