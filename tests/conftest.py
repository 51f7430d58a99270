"""Before anything else is imported: no network, one thread, and `from tests.models import ...`
works.
"""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# What a test notes of a home never stands in the record of the user who runs it
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="swarm-node-state-")
# A quick starter, where a test names no model
os.environ.setdefault("SWARM_NODE_MODEL__NAME", "rare")
# Nodes of tests are not visible outside this machine
os.environ.setdefault("SWARM_NODE_NETWORK__HOST", "127.0.0.1")
os.environ.setdefault("SWARM_NODE_NETWORK__MDNS", "false")  # nor to those of other tests

ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], True)
pytest_plugins = ["tests.going_on", "tests.skips", "tests.spent"]
LONGEST = (  # files of half a minute and more, the longest first
    "swarm/test_fixture.py", "core/hub/test_hub.py", "network/test_process.py",
    "swarm/test_quick_start.py",
    "network/test_nodes.py", "network/test_shares.py", "swarm/test_pages_followed.py",
    "house/test_wheel.py",
    "core/browser/test_pages.py", "core/policy/test_fp8_triton.py",
    "swarm/test_at_home.py", "swarm/test_asynchronous.py", "swarm/test_how_to.py",
    "swarm/test_resume.py", "network/test_real_networks.py",
    "network/test_mixed_swarm.py", "swarm/test_plugins.py",
    "core/environments/test_dataset_bounds.py", "core/environments/test_taskset.py",
    "swarm/test_secrets.py", "swarm/test_own_task.py", "swarm/test_workers.py",
    "lab/benchmarks/test_benchmarks.py",
)  # fmt: skip

# A deadline would test how busy the machine is
settings.register_profile("suite", deadline=None, max_examples=50)
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files begin first: short ones then fill what is left, and no worker waits long
    for the last.
    """
    rank = {Path(ROOT, "tests", name): number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The suite shares few cores, and results must not depend on how many there are."""
    import torch  # the tests of the protocol start without it otherwise

    torch.set_num_threads(1)
    # A collection, which code asks for when memory is short, need not look at every imported module
    # again
    gc.freeze()
    yield
    gc.unfreeze()
