"""The lock of the image has every dependency, by hash, within the ranges of pyproject.toml."""

import json
import re
import tomllib
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
