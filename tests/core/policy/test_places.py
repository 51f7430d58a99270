"""A model by its page on the hub, a tokenizer that ends each text, and
machines without a home folder, without IPv4, and with caches that nobody may write.
"""

import os
import pwd
import socket
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from pydantic import ValidationError

from swarm_node.common import homeless
from swarm_node.common.errors import UserError, reason_of
from swarm_node.network.transport.backends import listen_addresses
from swarm_node.policy import named
from swarm_node.policy.policy import Policy
from swarm_node.settings import ModelConfig, NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.telemetry.events import Guarded


@pytest.mark.parametrize(
    "name",
    [
        "https://huggingface.co/Owner/Name-1.5B", "https://huggingface.co/Owner/Name-1.5B/",
        "https://huggingface.co/Owner/Name-1.5B/tree/main", "http://hf.co/Owner/Name-1.5B",
        "huggingface.co/Owner/Name-1.5B?library=transformers", "Owner/Name-1.5B",
    ],
)  # fmt: skip
def test_the_page_of_a_model_names_it(name) -> None:
    assert ModelConfig(name=name).name == "Owner/Name-1.5B"


@pytest.mark.parametrize(
    "name",
    [
        "https://huggingface.co/Owner/Name/tree/v2", "https://huggingface.co/datasets/a/b",
        "https://huggingface.co/Owner", "https://huggingface.co/Owner/Name/blob/main/config.json",
    ],
)  # fmt: skip
def test_another_page_of_the_hub_is_one_line(name) -> None:
    with pytest.raises(UserError, match=r"must be OWNER/NAME .* model\.revision") as caught:
        from_command_line(NodeConfig, ["--model.name", name], "swarm-node run")
    assert "\n" not in str(caught.value)
    with pytest.raises(ValidationError):
        ModelConfig(name=name)


class Ending:
    """A tokenizer that ends every text with an end token, as those of T5 and some others do."""

    chat_template = None

    def __call__(self, text: str, add_special_tokens: bool = True, **_: object) -> object:
        ids = [ord(char) for char in text]
        return SimpleNamespace(input_ids=[*ids, 1, 2] if add_special_tokens else ids)


def test_no_prompt_ends_with_an_end_token() -> None:
    policy = SimpleNamespace(
        tokenizer=Ending(),
        eos_ids={1, 2},
        frame=SimpleNamespace(system="", arguments={}, chat=True),
        name="ending",
    )
    policy._ids = partial(Policy._ids, policy)
    assert Policy.encode_prompt(policy, "ab") == [97, 98]
    assert Policy.encode_prompt(policy, "") == [1]  # a model needs a token to go on from


def test_without_a_home_folder_the_current_one_is_it(monkeypatch, tmp_path, capsys) -> None:
    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    homeless.settle()
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("HOME", "so that it is given back")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError):
        Path("~/x").expanduser()
    homeless.settle()
    assert Path("~/x").expanduser() == tmp_path / "x" and os.environ["HOME"] == str(tmp_path)
    said = capsys.readouterr().err
    assert f"has no home folder, so ~ is {tmp_path}" in said and said.count("\n") == 1


def machine(*addresses: str) -> dict[str, list[SimpleNamespace]]:
    families = {True: socket.AF_INET6, False: socket.AF_INET}
    entries = [SimpleNamespace(family=families[":" in each], address=each) for each in addresses]
    return {"lo": entries[:2], "eth0": entries[2:]}


@pytest.mark.parametrize(
    ("addresses", "listens"),
    [
        (("127.0.0.1", "::1", "2001:db8::5", "fe80::1%eth0"), "/ip6/::/"),
        (("127.0.0.1", "::1", "fe80::1%eth0"), "/ip4/0.0.0.0/"),
        (("127.0.0.1", "::1", "10.0.0.3", "2001:db8::5"), "/ip4/0.0.0.0/"),
        (("127.0.0.1", "::1"), "/ip4/0.0.0.0/"),
    ],
)
def test_a_machine_with_ipv6_alone_listens_there(addresses, listens, monkeypatch) -> None:
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: machine(*addresses))
    assert listen_addresses("0.0.0.0", 7) == [f"{listens}tcp/7", f"{listens}udp/7/quic-v1"]
    assert listen_addresses("127.0.0.1", 7)[0] == "/ip4/127.0.0.1/tcp/7"  # as it is told


def test_a_cache_that_cannot_be_written_is_read(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.setattr(named, "unreachable", lambda *_: "")
    kept = tmp_path / "hub" / "models--some--model" / "snapshots" / "abc"
    kept.mkdir(parents=True)
    (kept / "config.json").write_text("{}")
    named.only_here.cache_clear()
    assert not named.only_here("some/model")
    named.only_here.cache_clear()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write anywhere
    assert named.only_here("some/model") and not named.only_here("some/other")
    named.only_here.cache_clear()


def test_an_error_without_a_reason_of_the_system_is_told_by_its_own_words() -> None:
    class Broken:
        def take(self, event: object) -> None:
            raise ConnectionError("the tracker's server hung up\nand more")

        def close(self) -> None:
            raise TimeoutError

    said: list[str] = []
    Guarded("tracker mine", Broken(), said.append).take(None)  # type: ignore[arg-type]
    Guarded("tracker mine", Broken(), said.append).close()  # type: ignore[arg-type]
    assert "cannot write (the tracker's server hung up);" in said[0]
    assert "cannot write (TimeoutError);" in said[1]
    assert reason_of(OSError(28, "No space left on device")) == "No space left on device"
