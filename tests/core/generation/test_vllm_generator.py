"""vLLM as a generator, against a server process with its API and a real tiny model."""

import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import compress
from pathlib import Path

import pytest
import torch

from lab.benchmarks.served import api_on_loopback
from protocol.messages import Round
from swarm_node.common.errors import UserError
from swarm_node.generation.generator import BatchGenerator
from swarm_node.generation.vllm.agreement import Agreement
from swarm_node.generation.vllm.generator import FAILURES, VllmGenerator
from swarm_node.generation.vllm.placement import Placement, placed
from swarm_node.generation.vllm.server import KEEPER
from swarm_node.node.episodes import complete
from swarm_node.node.learner import build_generator
from swarm_node.policy.loading import load_policy
from swarm_node.policy.precision import Precision
from swarm_node.rollouts.groups import Completions, Group, Skipped
from swarm_node.settings import (
    GenerationConfig,
    LearningConfig,
    ModelConfig,
    TrainingConfig,
)
from swarm_node.settings.vllm import VllmConfig
from swarm_node.training.trainer import GrpoTrainer
from tests import preloaded
from tests.groups import episodes_of, scored, tokens_of
from tests.models import MANY_EOS, Guessing, question, text_group, tiny_policy
from tests.socks import without_socksio
from tests.waiting import until

STAND_IN = ("-m", "tests.vllm_stand_in")
ROOT = Path(__file__).parents[3]
PROMPTS = ["1+1=", "a longer question?", "x" * 500]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("served") / "weights"
    command = [*preloaded.python(), *STAND_IN, "--model", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
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
    policy = tiny_policy(eos=[*MANY_EOS, 2**20])  # vLLM takes no id that the model does not know
    generator = VllmGenerator(policy, *options(served))
    trainer = GrpoTrainer(policy, TrainingConfig(learning_rate=1e-1), options(served)[0])
    for _ in range(2):
        first, second, long = generator.generate(PROMPTS, 4, "s")
        assert long == Skipped("prompt longer than the context")
        for prompt, group in zip(PROMPTS, (first, second), strict=False):
            assert isinstance(group, Completions) and len(tokens_of(group)) == 4
            for tokens, completion in zip(tokens_of(group), episodes_of(group), strict=True):
                assert tokens.log_probs == pytest.approx(
                    log_probs_of(policy, prompt, tokens.ids), abs=1e-4
                )
                assert set(tokens.versions) == {policy.version}
                assert completion.ended == (tokens.ids[-1] in policy.eos_ids)
        # A step on these completions moves the weights, and the new weights have to generate the
        # next round.
        group = text_group(
            [1.0, 0.0, 0.0, 0.0], [c.text for c in episodes_of(first)], prompt=PROMPTS[0]
        )
        trainer.update([scored(group, PROMPTS[0], group.rewards, tokens_of(first))])


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
    assert isinstance(free, Completions)
    stop = next(one.text[1:3] for one in episodes_of(free) if len(one.text) > 3)
    (group,) = VllmGenerator(policy, *options(served, stop=(stop,))).generate(PROMPTS[:1], 4, "s")
    assert isinstance(group, Completions) and not any(
        stop in one.text for one in episodes_of(group)
    )
    cut = [
        (one, policy.decode([list(t.ids)])[0])
        for one, t in zip(episodes_of(group), tokens_of(group), strict=True)
    ]
    assert any(spelled == one.text + stop and one.ended for one, spelled in cut)


@pytest.mark.slow
def test_episodes_are_generated_turn_by_turn(served) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    (group,) = complete(
        Guessing(),
        VllmGenerator(policy, *options(served)),
        [Group("ann", Round(0), question(), prompt=PROMPTS[0])],
        6,
        "s",
    )
    assert isinstance(group, Group) and max(len(each.turns) for each in episodes_of(group)) > 2
    for tokens in tokens_of(group):
        mask = tokens.mask or (True,) * len(tokens.ids)
        now = compress(log_probs_of(policy, PROMPTS[0], tokens.ids), mask)
        assert list(compress(tokens.log_probs, mask)) == pytest.approx(list(now), abs=1e-4)


@pytest.mark.slow
def test_an_update_that_is_withheld_costs_a_round_and_in_the_end_is_a_mistake_of_the_user(
    served, monkeypatch
) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *options(served))
    assert isinstance(generator.generate(PROMPTS[:1], 4, "s")[0], Completions)
    ask = generator._ask
    with monkeypatch.context() as patch:
        patch.setattr(
            generator,
            "_ask",
            lambda path, body: {} if path == "/collective_rpc" else ask(path, body),
        )
        with torch.no_grad():
            policy.model.lm_head.weight.mul_(3.0)
        policy.version += 1
        for _ in range(FAILURES - 1):
            assert generator.generate(PROMPTS[:1], 4, "t") == [Skipped("vLLM failed")]
        assert generator.difference > 0.1
        with pytest.raises(UserError, match="differ from the trainer's"):
            generator.generate(PROMPTS[:1], 4, "t")
    assert (
        isinstance(generator.generate(PROMPTS[:1], 4, "u")[0], Completions)
        and generator.difference < 1e-4
    )


class Coarse(Precision):
    plain = False


def test_what_vllm_does_not_do_is_refused_at_start() -> None:
    policy = tiny_policy()
    with pytest.raises(UserError, match=r"generation\.stop_below"):
        VllmGenerator(policy, GenerationConfig(stop_below=-3.0), VllmConfig(url="auto"))
    policy.precision = Coarse()
    with pytest.raises(UserError, match="another precision"):
        VllmGenerator(policy, GenerationConfig(), VllmConfig(url="auto"))
    with pytest.raises(UserError, match="keeps the old output head"):
        VllmGenerator(tiny_policy("Qwen2"), GenerationConfig(), VllmConfig(url="auto"))


def test_a_server_generates_only_where_one_is_named() -> None:
    config = LearningConfig.model_validate({"vllm": {"python": "x"}})
    assert isinstance(build_generator(config, tiny_policy()), BatchGenerator)


def test_adapters_on_a_cpu_are_generated_with_the_own_decoder_which_says_so(tmp_path: Path) -> None:
    tiny_policy().save(tmp_path)
    config = LearningConfig.model_validate({"vllm": {"url": "auto"}})
    generator = build_generator(
        config, load_policy(ModelConfig(name=str(tmp_path), device="cpu", lora_rank=4))
    )
    assert isinstance(generator, BatchGenerator) and "in place of vLLM" in generator.decoder_name


# --- a server of its own --------------------------------------------------------------------------


@pytest.fixture
def python_with_vllm(tmp_path: Path) -> str:
    """A Python for which `-m vllm.entrypoints.openai.api_server` runs the stand-in."""
    script = tmp_path / "python"
    line = " ".join([*preloaded.python(), *STAND_IN])
    # The stand-in is found in the checkout, as vLLM is in its environment
    found = f"unset PYTHONSAFEPATH; cd {ROOT}"
    script.write_text(f'#!/bin/sh\nshift 3\n{found} && exec {line} "$@"\n')
    script.chmod(0o755)
    return str(script)


def of_its_own(python: str, folder: Path, **more) -> tuple[GenerationConfig, VllmConfig]:
    return GenerationConfig(max_completion_length=8), VllmConfig(
        url="auto", python=python, folder=folder, **more
    )


@pytest.mark.slow
def test_a_server_of_its_own_is_started_replaced_when_it_dies_and_ended(
    python_with_vllm, tmp_path
) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    generator = VllmGenerator(policy, *of_its_own(python_with_vllm, tmp_path / "weights"))
    assert isinstance(generator.generate(PROMPTS[:1], 4, "s")[0], Completions)
    server = generator._server
    assert server is not None and server.pid is not None and server.starts == 1
    os.killpg(server.pid, signal.SIGKILL)
    until(lambda: not server.running)
    assert isinstance(generator.generate(PROMPTS[:1], 4, "t")[0], Completions)
    members = ["pgrep", "-g", str(server.pid)]
    generator.close()
    until(lambda: server.starts == 2 and subprocess.run(members, check=False).returncode == 1)


def test_a_server_that_does_not_listen_is_killed_when_its_node_is_gone() -> None:
    quick, deaf = KEEPER.replace("sleep 10", "sleep 0"), "trap '' TERM; echo; exec sleep 600"
    command = ["/bin/sh", "-c", quick, "sh", "/bin/sh", "-c", deaf]
    keeper = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert keeper.stdin and keeper.stdout and keeper.stdout.readline() == b"\n"
    keeper.stdin.close()
    assert keeper.wait(30) == -signal.SIGKILL


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
        assert isinstance(group, Completions) and generator.difference < 1e-4
        text = text_group(
            [1.0, 0.0, 0.0, 0.0], [c.text for c in episodes_of(group)], prompt=PROMPTS[0]
        )
        trainer.update([scored(text, PROMPTS[0], text.rewards, tokens_of(group))])
    assert generator._server is not None and generator._server.starts == 1
    generator.close()


def test_a_server_that_does_not_start_is_a_mistake_of_the_user(tmp_path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no vllm here\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(UserError, match="does not start"):
        VllmGenerator(tiny_policy(), *of_its_own(str(broken), tmp_path / "weights")).generate(
            PROMPTS, 2, "s"
        )
    assert (tmp_path / "weights.log").read_text() == "no vllm here\n"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b"", "HTTP error 404: Not Found"),
        (500, b"", "HTTP error 500"),
        (400, b'{"error": {"message": "no adapter here"}}', "HTTP error 400: no adapter here"),
        (200, b"<html>", "Expecting value"),
        *((status, b"", f"HTTP error {status}") for status in (301, 302, 303, 307, 308)),
    ],
)
def test_a_server_that_does_not_know_how_is_a_mistake_and_nobody_is_sent_on_to_another(
    status: int, body: bytes, message: str, tmp_path: Path
) -> None:
    with (
        api_on_loopback(lambda other, _: other.raw(b"")) as elsewhere,
        api_on_loopback(
            lambda server, _: server.raw(body, status, Location=elsewhere.address)
        ) as api,
    ):
        with pytest.raises(UserError, match=message):
            VllmGenerator(tiny_policy(), *options((api.address, tmp_path / "weights"))).generate(
                PROMPTS, 2, "s"
            )
        assert api.asked and not elsewhere.asked


def test_no_proxy_comes_between_the_node_and_a_server_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for proxy in ("http://127.0.0.1:1", "socks5://127.0.0.1:1"):
        monkeypatch.setenv("HTTP_PROXY", proxy)
        monkeypatch.setenv("ALL_PROXY", proxy)
        with api_on_loopback(lambda server, _: server.say({}, 418)) as api:
            generator = VllmGenerator(tiny_policy(), *options((api.address, tmp_path / "weights")))
            with pytest.raises(UserError, match="HTTP error 418"):
                generator.generate(PROMPTS, 2, "s")
            assert api.asked, proxy
    monkeypatch.delenv("HTTP_PROXY")
    without_socksio(monkeypatch)
    away = VllmGenerator(tiny_policy(), *options(("http://gpu.example", tmp_path / "weights")))
    with pytest.raises(UserError, match="ALL_PROXY names a SOCKS proxy"):
        away.generate(PROMPTS, 2, "s")


def test_a_server_that_does_not_answer_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_node.generation.vllm.generator.SECONDS", 0.2)
    with (
        api_on_loopback(lambda it, _: it.server.stopped.wait()) as api,
        pytest.raises(UserError, match="timed out"),
    ):
        VllmGenerator(tiny_policy(), *options((api.address, tmp_path / "weights"))).generate(
            PROMPTS, 2, "s"
        )


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "ftp://127.0.0.1"])
def test_an_address_where_no_server_is_is_a_mistake_of_the_user(url: str, tmp_path: Path) -> None:
    for no_url in ("http://[::1", "127.0.0.1:8000"):
        with pytest.raises(ValueError, match="should be the address of a server"):
            options((no_url, tmp_path / "weights"))
    with pytest.raises(UserError, match="vllm serve"):
        VllmGenerator(tiny_policy(), *options((url, tmp_path / "weights"))).generate(
            PROMPTS, 2, "s"
        )


# --- how far log-probs may differ, and where a server goes ----------------------------------------


@pytest.mark.parametrize("usual", [1e-6, 0.009, 0.022, 0.039, 0.046])
def test_log_probs_may_differ_as_far_as_in_the_first_round(usual) -> None:
    """From float32 on a CPU to what others published for bfloat16 on cards."""
    judge = Agreement()
    assert judge.allows([usual] * 64)
    assert judge.allows([1.5 * usual] * 64) and judge.difference == pytest.approx(1.5 * usual)
    assert not judge.allows([3.5 * max(usual, 0.02)] * 64)
    assert judge.allows([usual] * 64), "a refused round sets no standard"


def test_a_first_round_as_far_off_as_a_withheld_update_is_refused() -> None:
    judge = Agreement()
    assert not judge.allows([0.102] * 64)
    assert judge.usual is None
    assert judge.allows([0.046] * 64)


def test_a_few_tokens_decide_nothing_and_a_new_server_is_judged_anew() -> None:
    judge = Agreement()
    assert judge.allows([0.14] * 16) and judge.usual is None  # by chance twice as far
    assert judge.allows([0.001] * 64)
    assert not judge.allows([0.07] * 64)
    judge.begin()
    assert judge.allows([0.07] * 64)


@pytest.fixture
def cards(monkeypatch):
    """A policy on the first of so many cards of 12 GB, of which 2 GB are in use by others."""

    def with_cards(count: int):
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10 * 2**30, 12 * 2**30))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 0)
        policy = tiny_policy(max_position_embeddings=32768)
        _ = policy.packing  # tried before the policy pretends to be on a card
        policy.device = torch.device("cuda")
        return policy

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return with_cards


CONFIG = LearningConfig(generation=GenerationConfig(max_completion_length=256))


def test_a_server_on_the_trainers_card_gets_what_the_plan_leaves_over_and_sleeps(cards) -> None:
    place = placed(cards(1), CONFIG, "", ())
    flags = dict(zip(place.arguments[::2], place.arguments[1::2], strict=False))
    # Of 12 GiB others have 2; the trainer keeps CUDA's context and a tiny model; a gap of 8 %
    assert 0.7 < float(flags["--gpu-memory-utilization"]) < 0.78
    assert flags["--max-model-len"] == str(8192 + 256) and place.longest == 8192 + 256
    assert "--enable-sleep-mode" in place.arguments and place.sleeps
    assert place.environment == (("CUDA_VISIBLE_DEVICES", "0"),)


def test_a_server_gets_the_card_that_the_trainer_has_not_and_all_of_it(cards, monkeypatch) -> None:
    place = placed(cards(2), CONFIG, "", ())
    assert place.arguments == ("--max-model-len", "8448") and not place.sleeps
    assert place.environment == (("CUDA_VISIBLE_DEVICES", "1"),)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert placed(cards(2), CONFIG, "", ()).environment == (("CUDA_VISIBLE_DEVICES", "7"),)
    assert placed(cards(2), CONFIG, "0", ()).sleeps


def test_what_the_user_says_of_memory_and_length_counts(cards) -> None:
    given = ("--gpu-memory-utilization=0.3", "--max-model-len", "1000")
    place = placed(cards(1), CONFIG, "", given)
    assert place.arguments == ("--enable-sleep-mode",) and place.longest == 0
    assert placed(tiny_policy(), CONFIG, "", ()) == Placement()


@pytest.mark.slow
def test_a_server_sleeps_while_the_node_trains(python_with_vllm, tmp_path) -> None:
    policy = tiny_policy(eos=MANY_EOS)
    config = of_its_own(python_with_vllm, tmp_path / "weights")
    generator = VllmGenerator(policy, *config, Placement(sleeps=True))
    for _ in range(2):  # the stand-in answers nothing while it sleeps
        assert isinstance(generator.generate(PROMPTS[:1], 4, "s")[0], Completions)
        assert generator._asleep
    os.killpg(generator._server.pid, signal.SIGKILL)
    until(lambda: not generator._server.running)
    assert isinstance(generator.generate(PROMPTS[:1], 4, "s")[0], Completions)
    generator.close()
