"""Writes a lock and its bill of materials from what pip resolves. The image installs the first one
below, CI the other.

    pip install --dry-run --ignore-installed --quiet --report report.json '.[gym,libp2p]'
    python docker/lock.py report.json docker/locks/cpu-linux-x86_64-py311

    pip install --dry-run --ignore-installed --quiet --report report.json '.[dev]'
    python docker/lock.py report.json docker/locks/dev-linux-x86_64-py311

Both are for the platform and Python that pip ran on, and name each file with its SHA-256: NAME.txt,
the lock, is for `pip install --require-hashes`, NAME.cdx.json is CycloneDX.
"""

import json
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    report, name = json.loads(Path(sys.argv[1]).read_text()), sys.argv[2]
    found = sorted(
        (each for each in report["install"] if "archive_info" in each["download_info"]), key=name_of
    )
    lines = [
        f"{name_of(each)}=={each['metadata']['version']} --hash=sha256:{digest(each)}"
        for each in found
    ]
    python, machine = (
        report["environment"]["python_version"],
        report["environment"]["platform_machine"],
    )
    head = f"# Python {python}, {machine}. Made by docker/lock.py, which says how."
    Path(f"{name}.txt").write_text("\n".join([head, *lines]) + "\n")
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": [part(each) for each in found],
    }
    Path(f"{name}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")


def name_of(each: dict[str, Any]) -> str:
    return str(each["metadata"]["name"]).lower().replace("_", "-")


def digest(each: dict[str, Any]) -> str:
    return str(each["download_info"]["archive_info"]["hashes"]["sha256"])


def part(each: dict[str, Any]) -> dict[str, Any]:
    """One component of the bill."""
    name, version = name_of(each), each["metadata"]["version"]
    made = {
        "type": "library",
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
    }
    licence = each["metadata"].get("license_expression")
    if licence:
        made["licenses"] = [{"expression": licence}]
    return {**made, "hashes": [{"alg": "SHA-256", "content": digest(each)}]}


if __name__ == "__main__":
    main()
