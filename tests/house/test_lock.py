"""Locks have every dependency, by hash, within the ranges of pyproject.toml, and p2pd is the binary
of SECURITY.md.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tomllib
from base64 import urlsafe_b64encode
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "docker" / "locks" / "cpu-linux-x86_64-py311.txt"
DEV = LOCK.with_name("dev-linux-x86_64-py311.txt")  # what CI installs from
LINE = re.compile(r"([a-z0-9.-]+)==(\S+) --hash=sha256:([0-9a-f]{64})")


def locked(lock: Path = LOCK) -> dict[str, tuple[str, str]]:
    found = {}
    for line in lock.read_text().splitlines()[1:]:
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


def test_what_ci_installs_by_hash_is_within_the_ranges_too() -> None:
    """Packages that this lock lacks, as after a new extra, are installed by their ranges."""
    project, known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"], locked(DEV)
    extras = project["optional-dependencies"]
    wanted = [
        Requirement(text)
        for text in [*project["dependencies"], *(text for all in extras.values() for text in all)]
    ]
    found = [
        each
        for each in wanted
        if canonicalize_name(each.name) in known and each.name != "textswarm"
    ]
    assert len(found) > 40
    assert [
        each
        for each in found
        if not each.specifier.contains(known[canonicalize_name(each.name)][0])
    ] == []
    assert DEV.name in (ROOT / "Makefile").read_text()


HERE = f"# Python {sys.version_info[0]}.{sys.version_info[1]}, {platform.machine()}. Made for a test."


def install(
    folder: Path, first: str, pip: str, *flags: str, by_ranges: str = ""
) -> "subprocess.CompletedProcess[str]":
    """What locked.sh does with a lock that begins so, and with this script as pip."""
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin" / "python").exists():
        (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "pip").write_text(f"#!/bin/sh\n{pip}\n")
    (folder / "bin" / "pip").chmod(0o700)
    lock = folder / "lock.txt"
    lock.write_text(f"{first}\n")
    words = ["sh", str(ROOT / "docker" / "locked.sh"), *flags, str(folder / "bin"), str(lock)]
    environment = {**os.environ, "BY_RANGES": by_ranges}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def test_a_lock_for_another_platform_leaves_the_installation_to_the_ranges(tmp_path: Path) -> None:
    other = install(tmp_path, "# Python 2.7, vax. Made for a test.", "exit 9")
    assert other.returncode == 0 and "another platform" in other.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="locks are for Linux")
def test_a_file_that_cannot_be_had_ends_the_installation_with_one_line(tmp_path: Path) -> None:
    pip = "echo 'no matching distribution' >&2; exit 1"
    missing = install(tmp_path, HERE, pip)
    assert missing.returncode == 1
    (line,) = missing.stderr.splitlines()
    assert "not all of its files can be had" in line and "BY_RANGES=1" in line


@pytest.mark.skipif(sys.platform != "linux", reason="locks are for Linux")
def test_only_a_named_option_lets_missing_files_be_installed_without_hashes(tmp_path: Path) -> None:
    pip = "echo 'no matching distribution' >&2; exit 1"
    by_flag = install(tmp_path, HERE, pip, "--by-ranges")
    by_variable = install(tmp_path, HERE, pip, by_ranges="1")
    for allowed in (by_flag, by_variable):
        assert allowed.returncode == 0 and "by ranges, without hashes" in allowed.stdout
    assert install(tmp_path, HERE, pip, by_ranges="0").returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="locks are for Linux")
def test_a_file_with_another_hash_ends_the_installation_whatever_is_allowed(tmp_path: Path) -> None:
    pip = "echo 'THESE PACKAGES DO NOT MATCH THE HASHES' >&2; exit 1"
    for flags in ((), ("--by-ranges",)):
        changed = install(tmp_path, HERE, pip, *flags)
        assert changed.returncode == 1
        (line,) = changed.stderr.splitlines()
        assert "another hash" in line


@pytest.mark.skipif(sys.platform != "linux", reason="locks are for Linux")
def test_what_is_installed_from_a_lock_is_checked_by_hash(tmp_path: Path) -> None:
    done = install(tmp_path, HERE, 'case "$*" in *--require-hashes*) exit 0;; esac; exit 3')
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_bill_of_materials_has_the_same_files() -> None:
    bill = json.loads(LOCK.with_suffix(".cdx.json").read_text())
    parts = {
        canonicalize_name(it["name"]): (it["version"], it["hashes"][0]["content"])
        for it in bill["components"]
    }
    assert parts == locked()


def test_p2pd_is_the_file_of_the_locked_wheel_and_of_security_md() -> None:
    installed = distribution("hivemind")
    assert installed.version == locked()["hivemind"][0]
    (entry,) = [each for each in installed.files or () if each.name == "p2pd"]
    digest = hashlib.sha256(Path(str(entry.locate())).read_bytes()).digest()
    assert entry.hash is not None and entry.hash.mode == "sha256"
    assert entry.hash.value == urlsafe_b64encode(digest).rstrip(b"=").decode()
    if (sys.platform, platform.machine()) == ("linux", "x86_64"):
        assert digest.hex() in (ROOT / "SECURITY.md").read_text()


def test_the_image_has_the_lock_the_version_and_a_base_that_cannot_change_under_its_name() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert {f"ARG LOCK=docker/locks/{LOCK.name}", f"ARG VERSION={version}"} <= {*lines}
    assert [
        line
        for line in lines
        if re.fullmatch(r"ARG BASE=debian:bookworm-slim@sha256:[0-9a-f]{64}", line)
    ]
    assert {line.split()[1] for line in lines if line.startswith("FROM ")} == {"${BASE}", "scratch"}
