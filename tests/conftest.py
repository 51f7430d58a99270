"""Before anything else is imported: no network, one thread, and `from tests.models import ...` works."""

import os
import sys
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("SWARM_NODE_MODEL__NAME", "rare")  # a starter, where a test names no model: they are quick
os.environ.setdefault("SWARM_NODE_NETWORK__HOST", "127.0.0.1")  # nodes of tests are not visible outside this machine
os.environ.setdefault("SWARM_NODE_NETWORK__MDNS", "false")  # nor by another test

ROOT = str(Path(__file__).resolve().parent.parent)
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

pytest_plugins = ["tests.going_on", "tests.skips"]
LONGEST = (  # files of a minute and more, the longest first
    "swarm/test_pages_followed.py",
    "extensions/hub/test_hub.py",
    "core/commands/test_cli.py",
    "lab/benchmarks/test_benchmarks.py",
    "swarm/test_how_to.py",
    "swarm/test_resume.py",
    "network/test_nodes.py",
    "extensions/trl/test_trl.py",
    "lab/benchmarks/test_group_path.py",
    "swarm/test_secrets.py",
    "swarm/test_asynchronous.py",
    "swarm/test_at_home.py",
    "extensions/contribute/test_contributing.py",
    "house/test_wheel.py",
    "extensions/ray/test_ray.py",
    "extensions/fp8/test_fp8_triton.py",
    "extensions/browser/test_pages.py",
    "swarm/test_plugins.py",
    "network/test_real_networks.py",
)

settings.register_profile("suite", deadline=None)  # a deadline would test how busy the machine is
settings.load_profile("suite")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files begin first: short ones then fill what is left, and no worker waits long for the last."""
    rank = {Path(ROOT, "tests", name): number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """The suite shares few cores, and results must not depend on how many there are."""
    import torch  # the tests of the protocol start without it otherwise

    torch.set_num_threads(1)
