"""A secret in every place that may hold one: none of them comes out anywhere."""

import base64
import json
import os
import re
import subprocess
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from pydantic import BaseModel

from lab.benchmarks.served import api_on_loopback
from swarm_node.common.errors import UserError
from swarm_node.common.redaction import hidden
from swarm_node.hub.push import upload
from swarm_node.node.generator import GENERATOR, GeneratorSetup, settings_for
from swarm_node.settings import LearningConfig, NodeConfig
from swarm_node.settings.command_line import KINDS
from swarm_node.settings.options import flatten
from swarm_node.settings.secret import Secret
from swarm_node.settings.simulation import SimulationConfig
from swarm_node.simulation.arms import Cell, parse_arm
from swarm_node.simulation.engines.real_nodes import as_toml
from swarm_node.simulation.worker_messages import read_order, write_order
from swarm_node.telemetry.manifest import manifest
from tests import preloaded
from tests.commands import command, ended
from tests.waiting import PATIENCE, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
NAMES = (
    "url_user",
    "url_password",
    "api_password",
    "hf_argument",
    "section_password",
    "word_password",
    "key_of_file",
)
VARIABLES = (
    *(
        "SWARM_NODE_API_KEY",
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "WANDB_API_KEY",
        "OPENAI_API_KEY",
        "VLLM_API_KEY",
    ),
    *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    # In HF_ENDPOINT, HTTPS_PROXY and SWARM_NODE_VLLM__URL
    *("HUB_PASSWORD", "PROXY_PASSWORD", "URL_PASSWORD"),
)
EVERY = (*NAMES, *VARIABLES)
SECRETS = {
    name: f"q{number:02}ZkTnB+4&{number:02}/{name.lower()}7Hw" for number, name in enumerate(EVERY)
}
WORDS = re.compile(r"(^|_)(url|token|key|password|secret|api)(_|$)")
HARMLESS = {"key_file", "token"}  # the place of a key; whether a page asks for its token


def forms(secret: str) -> list[bytes]:
    """The forms of a secret that are searched for: as it is, in base64, in a URL, and its first 8
    characters.
    """
    packed = [
        base64.b64encode(b"\0" * shift + secret.encode()).decode()[4:-4] for shift in range(3)
    ]
    return [
        each.encode()
        for each in (secret, quote(secret, safe=""), quote(secret), secret[:8], *packed)
    ]


def leaks(said: Mapping[str, bytes]) -> list[str]:
    """Which secret is in which output."""
    everything = {name: forms(secret) for name, secret in SECRETS.items()}
    return [
        f"{name} in {where}"
        for where, text in said.items()
        for name, each in everything.items()
        if any(form in text for form in each)
    ]


def with_login(address: str, user: str, password: str) -> str:
    return address.replace("://", f"://{quote(user, safe='')}:{quote(SECRETS[password], safe='')}@")


def environment(vllm: str = "") -> dict[str, str]:
    """Every variable that may hold a secret holds one; nothing is reached but loopback."""
    known = {name: SECRETS[name] for name in VARIABLES if "PASSWORD" not in name}
    known["HF_ENDPOINT"] = with_login("http://127.0.0.1:9", "hub", "HUB_PASSWORD")
    known["HTTPS_PROXY"] = with_login("http://127.0.0.1:9", "proxy", "PROXY_PASSWORD")
    known["SWARM_NODE_VLLM__URL"] = with_login(vllm or "http://127.0.0.1:9", "node", "URL_PASSWORD")
    return {**os.environ, **known, "NO_PROXY": "127.0.0.1", "HF_HUB_DISABLE_XET": "1"}


@contextmanager
def vllm(folder: Path) -> Iterator[str]:
    line = [*preloaded.python(), "-m", "tests.vllm_stand_in", "--model", str(folder)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def test_the_search_finds_a_secret_in_each_of_its_forms() -> None:
    for name, secret in SECRETS.items():
        said = [
            secret,
            quote(secret),
            f"key {secret[:8]}***",
            base64.b64encode(f"hub:{secret}".encode()).decode(),
        ]
        said += [
            base64.b64encode(b"x" * shift + secret.encode() + b"yy").decode() for shift in range(3)
        ]
        for text in said:
            assert leaks({"here": text.encode()}) == [f"{name} in here"]


def test_every_option_that_may_hold_a_secret_has_the_type_of_one() -> None:
    def named(kind: type[BaseModel]) -> Iterator[tuple[str, object]]:
        for name, about in kind.model_fields.items():
            if isinstance(about.annotation, type) and issubclass(about.annotation, BaseModel):
                yield from named(about.annotation)
            elif WORDS.search(name) and name not in HARMLESS and about.annotation is not int:
                yield name, about.annotation

    found = {name: kind for each in KINDS for name, kind in named(each)}
    assert found and all(
        isinstance(kind, type) and issubclass(kind, Secret) for kind in found.values()
    ), found


def test_processes_of_ours_are_told_and_reports_are_not() -> None:
    url = with_login("http://127.0.0.1:8000", "node", "URL_PASSWORD")
    sections = {"vllm": {"url": url}}
    config = NodeConfig.model_validate(sections)
    learning = LearningConfig.model_validate(sections)
    told = GENERATOR.down.decode(
        GENERATOR.down.encode(GeneratorSetup(settings_for(learning), "me", 3, []))[4:]
    )
    assert told.config.vllm.url.get_secret_value() == url
    simulated = SimulationConfig.model_validate(sections)
    assert read_order(write_order(simulated, Cell(parse_arm("4/4"), 0)))[0] == simulated
    assert url in as_toml(config)
    written = manifest("node", config, [0], ["run", "--vllm.url", url])
    said = {
        "manifest": json.dumps(written),
        "text": f"{config} {config!r}",
        "json": config.model_dump_json(),
    }
    said["simulation"] = json.dumps(manifest("simulation", simulated, [0], [f"--vllm.url={url}"]))
    assert leaks({name: text.encode() for name, text in said.items()}) == []
    assert flatten(written["config"])["vllm.url"] == "http://***@127.0.0.1:8000"


def test_a_node_that_is_full_of_secrets_says_none(tmp_path: Path) -> None:
    home, said = tmp_path / "home", dict[str, bytes]()
    small = [
        "--environment.tasks",
        "gcd/tiny",
        "--round.questions",
        "2",
        "--generation.num-generations",
        "4",
    ]
    here = [
        "--network.host",
        "127.0.0.1",
        "--network.no-mdns",
        "--page",
        "127.0.0.1:0",
        "--threads",
        "1",
    ]
    every = ["--checkpoint.every", "1"]
    with vllm(home / "vllm") as server:
        user = SECRETS["url_user"]
        url = [
            "--vllm.url",
            with_login(server, user, "url_password"),
            "--vllm.folder",
            home / "vllm",
        ]
        env = environment(server)
        words = command("run", "--home", home, *small, *here, *every, *url)
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, env=env)
        try:
            events = home / "events.jsonl"
            until(
                lambda: events.exists() and b"CheckpointSaved" in events.read_bytes(),
                what="a checkpoint",
            )
            pushed = ended("model", "push", "me/model", "--home", home, env=env)
            assert pushed.returncode == 2
            said["push"] = (pushed.stdout + pushed.stderr).encode()
            done = ended("status", "--home", home, "--json", env=env)
            assert done.stdout.startswith("{"), done
            said["status"] = (done.stdout + done.stderr).encode()
            doctor = ended(
                "doctor", "--home", home, "--bundle", tmp_path / "bundle.zip", *small, *url, env=env
            )
            assert (tmp_path / "bundle.zip").exists(), doctor.stdout + doctor.stderr
            said["doctor"] = (doctor.stdout + doctor.stderr).encode()
            token = {"authorization": f"Bearer {(home / 'page.token').read_text().strip()}"}
            page = re.search(r"http://127\.0\.0\.1:\d+", (tmp_path / "output").read_text())
            assert page
            for path in ("/api/state", "/api/samples", "/metrics"):
                answer = httpx.get(page[0] + path, headers=token, timeout=PATIENCE)
                assert answer.status_code == 200, answer
                said[path] = answer.content
        except BaseException:
            process.kill()
            raise
    try:
        assert process.wait(PATIENCE) == 75, "without its server, which may come back, it ends"
    finally:
        process.kill()
    with zipfile.ZipFile(tmp_path / "bundle.zip") as bundle:
        said |= {f"bundle {name}": bundle.read(name) for name in bundle.namelist()}
    said["output"] = (tmp_path / "output").read_bytes()
    said |= {str(file): file.read_bytes() for file in home.rglob("*") if file.is_file()}
    assert leaks(said) == [] and b"no vLLM server at http://***@127.0.0.1" in said["output"]
    assert {"manifest.json", "events.jsonl", "network.log"} <= {Path(name).name for name in said}
    for name, text in said.items():
        assert not name.startswith("bundle ") or str(tmp_path).encode() not in text, name


SECTION = with_login("http://127.0.0.1:9", "a", "section_password")
WORD = with_login("http://h/v1", "a", "word_password")
# Secrets in the place of an argument, of a section and of a file, and in an invalid address
MISTAKES = [
    (["check", f"--vllm.arguments=--hf-token={SECRETS['hf_argument']}"], "must have no --hf-token"),
    (["check", "--generation", SECTION], "no option"),
    (["contribute", WORD], "does not exist"),
    (
        ["check", "--vllm.url", with_login("http://[::1", "a", "url_password")],
        "must be the address of a server",
    ),
]


@pytest.mark.parametrize(("words", "told"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_said_without_the_secret_in_it(words: list[str], told: str) -> None:
    done = ended(*words, env=environment())
    assert done.returncode == 2 and told in done.stderr, done
    assert leaks({"here": (done.stdout + done.stderr).encode()}) == []


def test_a_server_that_repeats_what_it_was_sent_is_not_repeated(tmp_path: Path) -> None:
    keys = (SECRETS["key_of_file"], SECRETS["api_password"])
    (tmp_path / "key").write_text(keys[0])
    (tmp_path / "home").mkdir()
    echoed = " ".join(
        f"{key} {key[:12]}... {base64.b64encode(key.encode()).decode()} {quote(key)}"
        for key in keys
    )
    with api_on_loopback(lambda handler, _: handler.say({"error": f"wrong: {echoed}"}, 404)) as api:
        address = with_login(api.address, "ann", "api_password")
        words = [
            "--api",
            address,
            "--model",
            "m",
            "--home",
            tmp_path / "home",
            "--key-file",
            tmp_path / "key",
        ]
        there = ["--network.no-enabled", "--environment.tasks", "gcd/tiny", "--max-rounds", "1"]
        done = ended("contribute", *words, *there, env=environment())
    assert done.returncode == 2 and "(status 404)" in done.stderr, done
    said = {
        str(file): file.read_bytes() for file in (tmp_path / "home").rglob("*") if file.is_file()
    }
    assert leaks({"output": (done.stdout + done.stderr).encode(), **said}) == []


def test_an_error_of_a_library_is_said_without_the_secrets_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    assert leaks({"hidden": hidden(" ".join(environment().values())).encode()}) == []

    def refuse(*_: object, **__: object) -> None:
        token = SECRETS["HF_TOKEN"]
        raise OSError(
            f"token {token[:9]}...{token[-4:]} at {os.environ['HF_ENDPOINT']}/api via "
            f"{os.environ['HTTPS_PROXY']}"
        )

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.HfApi.create_repo", refuse)  # the test is about this error
    with pytest.raises(UserError, match="could not be uploaded") as raised:
        upload(tmp_path, "me/model", False, "a message")
    assert leaks({"error": str(raised.value).encode()}) == []
