"""Which of the user's environment variables child processes get."""

import pytest

from swarm_node.common.children import KEPT_VARIABLES, clean_environment, without_secrets

SECRETS = (
    "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID",
    "AWS_SESSION_TOKEN", "WANDB_API_KEY", "OPENAI_API_KEY", "SWARM_NODE_API_KEY",
    "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "DATABASE_PASSWORD", "GITHUB_TOKEN",
    "SSH_AUTH_SOCK", "https_proxy", "HTTP_PROXY",
)  # fmt: skip
WANTED = {
    "CUDA_VISIBLE_DEVICES": "0", "HF_HOME": "/cache", "OMP_NUM_THREADS": "2",
    "TOKENIZERS_PARALLELISM": "false", "PATH": "/bin", "TORCH_LOGS": "+dynamo",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "secret")
    for name, value in WANTED.items():
        monkeypatch.setenv(name, value)


def test_a_clean_environment_has_what_was_named_alone() -> None:
    assert set(clean_environment()) <= {*KEPT_VARIABLES, "PYTHONUTF8"}
    assert clean_environment(("PATH",), {"X": "1"}) == {"PATH": "/bin", "PYTHONUTF8": "1", "X": "1"}


def test_what_computes_keeps_what_it_needs_and_no_secret() -> None:
    kept = without_secrets({"OMP_NUM_THREADS": "1"})
    assert (
        "secret" not in kept.values()
        and WANTED.items() - {("OMP_NUM_THREADS", "2")} <= kept.items()
    )
    assert kept["OMP_NUM_THREADS"] == "1"
