"""vLLM as a generator, against a server process with its API and a real tiny model."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread

import pytest
import torch

from swarm_node.common.errors import UserError
from swarm_node.extensions.vllm.generator import FAILURES, VllmGenerator
from swarm_node.extensions.vllm.settings import VllmConfig
from swarm_node.generation.generator import BatchGenerator
from swarm_node.node.learner import build_generator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.precision import Precision
from swarm_node.rollouts.groups import GeneratedGroup, ScoredGroup, Skipped
from swarm_node.settings import GenerationConfig, LearningConfig, ModelConfig, TrainingConfig
from swarm_node.settings.extended import with_sections
from swarm_node.training.trainer import GrpoTrainer
from tests.models import MANY_EOS, text_group, tiny_policy
from tests.waiting import until

STAND_IN = Path(__file__).parents[2] / "vllm_stand_in.py"
ROOT = Path(__file__).parents[3]
PROMPTS = ["1+1=", "a longer question?", "x" * 500]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("served") / "weights"
    process = subprocess.Popen(
        [sys.executable, str(STAND_IN), "--model", str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}", folder
    process.kill()
    process.wait()


def options(served: tuple[str, Path], **more) -> tuple[GenerationConfig, VllmConfig]:
    url, folder = served
    return GenerationConfig(max_completion_length=8, **more), VllmConfig(url=url, folder=folder)


def log_probs_of(policy, prompt: str, ids: tuple[int, ...]) -> list[float]:
    start = policy.encode_prompt(prompt)
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*start, *ids]])).logits[0, len(start) - 1 : -1]
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()


@pytest.mark.slow
def test_ids_and_log_probs_are_those_of_the_policy_also_after_an_update(served) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *options(served))
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=1e-1), options(served)[0])
    for _ in range(2):
        first, second, long = generator.generate(PROMPTS, 4, "s")
        assert long == Skipped("prompt longer than the context")
        for prompt, group in zip(PROMPTS, (first, second), strict=False):
            assert isinstance(group, GeneratedGroup) and len(group.tokens) == 4
            for tokens, completion in zip(group.tokens, group.completions, strict=True):
                assert tokens.log_probs == pytest.approx(log_probs_of(policy, prompt, tokens.ids), abs=1e-4)
                assert set(tokens.versions) == {policy.version}
                assert completion.ended == (tokens.ids[-1] in policy.eos_ids)
        # A step on what it generated moves the weights, and the new ones have to generate the next round.
        group = text_group([1.0, 0.0, 0.0, 0.0], [c.text for c in first.completions], prompt=PROMPTS[0])
        trainer.update([ScoredGroup(group.group, PROMPTS[0], group.rewards, first.tokens)])


@pytest.mark.slow
def test_a_stream_generates_the_same_again_and_concurrency_changes_nothing(served) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    one = VllmGenerator(policy, *options(served)).generate(PROMPTS[:2], 4, "s")
    assert VllmGenerator(policy, *options(served)).generate(PROMPTS[:2], 4, "t") != one
    policy.concurrent_tokens = 8
    assert VllmGenerator(policy, *options(served)).generate(PROMPTS[:2], 4, "s") == one


@pytest.mark.slow
def test_a_string_ends_the_same_text_before_it_and_its_tokens_are_kept(served) -> None:
    policy = tiny_policy()
    free = VllmGenerator(policy, *options(served)).generate(PROMPTS[:2], 4, "s")[0]
    assert isinstance(free, GeneratedGroup)
    stop = next(one.text[1:3] for one in free.completions if len(one.text) > 3)
    (group,) = VllmGenerator(policy, *options(served, stop=(stop,))).generate(PROMPTS[:1], 4, "s")
    assert isinstance(group, GeneratedGroup)
    assert not any(stop in one.text for one in group.completions)
    cut = [
        (one, policy.decode([list(tokens.ids)])[0]) for one, tokens in zip(group.completions, group.tokens, strict=True)
    ]
    assert any(spelled == one.text + stop and one.ended for one, spelled in cut)


@pytest.mark.slow
def test_a_server_with_another_distribution_is_found_out(served) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *options(served))
    generator._hand_over()
    spoil(policy)  # as if the server had not taken the new weights
    with pytest.raises(UserError, match="differ from the trainer's"):
        generator.generate(PROMPTS[:1], 2, "s")


def spoil(policy) -> None:
    with torch.no_grad():
        policy.model.lm_head.weight.mul_(3.0)


@pytest.mark.slow
def test_an_update_that_is_withheld_costs_the_next_round_and_no_more(served, monkeypatch) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *options(served))
    assert isinstance(generator.generate(PROMPTS[:1], 4, "s")[0], GeneratedGroup)
    ask = generator._ask
    with monkeypatch.context() as patch:
        patch.setattr(generator, "_ask", lambda path, body: {} if path == "/collective_rpc" else ask(path, body))
        spoil(policy)
        policy.version += 1
        assert generator.generate(PROMPTS[:1], 4, "t") == [Skipped("vLLM failed")]
        assert generator.difference > 0.1
    assert isinstance(generator.generate(PROMPTS[:1], 4, "u")[0], GeneratedGroup)
    assert generator.difference < 1e-4


@pytest.mark.slow
def test_a_server_that_never_takes_an_update_is_a_mistake_of_the_user_in_the_end(served, monkeypatch) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *options(served))
    generator.generate(PROMPTS[:1], 4, "s")
    ask = generator._ask
    monkeypatch.setattr(generator, "_ask", lambda path, body: {} if path == "/collective_rpc" else ask(path, body))
    spoil(policy)
    policy.version += 1
    for _ in range(FAILURES - 1):
        assert generator.generate(PROMPTS[:1], 4, "t") == [Skipped("vLLM failed")]
    with pytest.raises(UserError, match="differ from the trainer's"):
        generator.generate(PROMPTS[:1], 4, "t")


def test_what_vllm_does_not_do_is_refused_at_start() -> None:
    with pytest.raises(UserError, match=r"generation\.stop_below"):
        VllmGenerator(tiny_policy(), GenerationConfig(stop_below=-3.0), VllmConfig(url="auto"))


def test_a_server_generates_only_where_one_is_named() -> None:
    config = with_sections(LearningConfig).model_validate({"vllm": {"sleep": True}})
    assert isinstance(build_generator(config, tiny_policy()), BatchGenerator)


class Coarse(Precision):
    plain = False


def test_a_precision_of_its_own_is_refused_at_start() -> None:
    policy = tiny_policy()
    policy.precision = Coarse()
    with pytest.raises(UserError, match="another precision"):
        VllmGenerator(policy, GenerationConfig(), VllmConfig(url="auto"))


def test_a_tied_model_on_a_cpu_is_refused_a_server_that_would_keep_its_head() -> None:
    with pytest.raises(UserError, match="keeps the old output head"):
        VllmGenerator(tiny_policy("Qwen2"), GenerationConfig(), VllmConfig(url="auto"))


# --- a server of its own ----------------------------------------------------------------------------------------------


@pytest.fixture
def python_with_vllm(tmp_path: Path) -> str:
    """What `-m vllm.entrypoints.openai.api_server` runs there is the stand-in."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\nshift 2\nPYTHONPATH={ROOT} exec {sys.executable} {STAND_IN} "$@"\n')
    script.chmod(0o755)
    return str(script)


def of_its_own(python: str, folder: Path, **more) -> tuple[GenerationConfig, VllmConfig]:
    return GenerationConfig(max_completion_length=8), VllmConfig(url="auto", python=python, folder=folder, **more)


@pytest.mark.slow
def test_a_server_of_its_own_is_started_replaced_when_it_dies_and_ended(python_with_vllm, tmp_path) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *of_its_own(python_with_vllm, tmp_path / "weights", sleep=True))
    server = generator._server
    assert server is not None
    assert isinstance(generator.generate(PROMPTS[:1], 4, "s")[0], GeneratedGroup)
    assert server.pid is not None and server.starts == 1
    os.killpg(server.pid, signal.SIGKILL)
    until(lambda: not server.running)
    assert isinstance(generator.generate(PROMPTS[:1], 4, "t")[0], GeneratedGroup)
    assert server.starts == 2
    pid = server.pid
    generator.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)


@pytest.mark.slow
def test_adapters_are_loaded_while_it_runs(python_with_vllm, tmp_path) -> None:
    base = tiny_policy(eos=MANY_EOS)
    base.save(tmp_path / "base")
    policy = load_policy(ModelConfig(name=str(tmp_path / "base"), device="cpu", lora_rank=4))
    policy.eos_ids = base.eos_ids
    config = of_its_own(python_with_vllm, tmp_path / "adapters")
    generator = VllmGenerator(policy, *config)
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=3e-2), config[0])
    for turn in range(3):
        (group,) = generator.generate(PROMPTS[:1], 4, str(turn))
        assert isinstance(group, GeneratedGroup)
        assert generator.difference < 1e-4
        text = text_group([1.0, 0.0, 0.0, 0.0], [c.text for c in group.completions], prompt=PROMPTS[0])
        trainer.update([ScoredGroup(text.group, PROMPTS[0], text.rewards, group.tokens)])
    assert generator._server is not None and generator._server.starts == 1
    generator.close()


def test_a_server_that_does_not_start_is_a_mistake_of_the_user(tmp_path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no vllm here\nexit 1\n")
    broken.chmod(0o755)
    config = of_its_own(str(broken), tmp_path / "weights")
    with pytest.raises(UserError, match="does not start"):
        VllmGenerator(tiny_policy(), *config).generate(PROMPTS, 2, "s")
    assert (tmp_path / "weights.log").read_text() == "no vllm here\n"


def test_no_server_is_a_mistake_of_the_user(tmp_path: Path) -> None:
    config = options(("http://127.0.0.1:9", tmp_path / "weights"))
    with pytest.raises(UserError, match="vllm serve"):
        VllmGenerator(tiny_policy(), *config).generate(PROMPTS, 2, "s")


@contextmanager
def replying(status: int, body: bytes = b"", delay: Event | None = None, **headers: str) -> Iterator[tuple[str, list]]:
    """A server that says the same to everything, its address, and the connections each request came by."""
    came_by = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            came_by.append(self.client_address)
            if delay is not None:
                delay.wait()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", came_by
    server.shutdown()
    server.server_close()


def test_requests_share_a_connection_until_the_generator_is_closed(tmp_path: Path) -> None:
    with replying(200) as (url, came_by):
        generator = VllmGenerator(tiny_policy(), *options((url, tmp_path / "weights")))
        assert generator.generate([], 2, "s") == []
        assert len(came_by) == 2 and len(set(came_by)) == 1
        generator.close()
        with pytest.raises(RuntimeError, match="closed"):
            generator._ask("/", {})


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [(404, b"", "HTTP error 404: Not Found"), (500, b"", "HTTP error 500"), (200, b"<html>", "Expecting value")],
)
def test_a_server_that_does_not_know_how_is_a_mistake_of_the_user(
    status: int, body: bytes, message: str, tmp_path: Path
) -> None:
    with replying(status, body) as (url, _), pytest.raises(UserError, match=message):
        VllmGenerator(tiny_policy(), *options((url, tmp_path / "weights"))).generate(PROMPTS, 2, "s")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_nobody_is_sent_on_to_another_server(status: int, tmp_path: Path) -> None:
    with replying(200) as (elsewhere, came_by), replying(status, Location=elsewhere) as (url, _):
        with pytest.raises(UserError, match=f"HTTP error {status}"):
            VllmGenerator(tiny_policy(), *options((url, tmp_path / "weights"))).generate(PROMPTS, 2, "s")
        assert not came_by


def test_a_server_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_node.extensions.vllm.generator.SECONDS", 0.2)
    delay = Event()
    with replying(200, delay=delay) as (url, _):
        config = options((url, tmp_path / "weights"))
        with pytest.raises(UserError, match="timed out"):
            VllmGenerator(tiny_policy(), *config).generate(PROMPTS, 2, "s")
        delay.set()


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://127.0.0.1"])
def test_an_address_that_is_none_is_a_mistake_of_the_user(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="should be the address of a server"):
        options(("http://[::1", tmp_path / "weights"))
    with pytest.raises(UserError, match="vllm serve"):
        VllmGenerator(tiny_policy(), *options((url, tmp_path / "weights"))).generate(PROMPTS, 2, "s")
