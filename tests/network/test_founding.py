"""docker/check_public_swarm.py follows docs/how-to/found_a_swarm.md word for word, in ten network
namespaces.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.internet.namespaces import reason

ROOT = Path(__file__).parents[2]
BINARIES = ("docker-compose", "prometheus", "prometheus-alertmanager")
MISSING = reason() or ", ".join(
    f"install {each}" for each in BINARIES if shutil.which(each) is None
)


@pytest.mark.network
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(bool(MISSING), reason=MISSING)
def test_three_found_a_swarm_by_the_page_and_three_join_it() -> None:
    command = [sys.executable, ROOT / "docker" / "check_public_swarm.py"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the others have an alert that waits" in done.stdout
