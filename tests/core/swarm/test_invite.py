"""Two computers, one command each: the second one types the code of the first, and nothing else."""

import os
import tomllib
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from protocol.identity import Identity
from swarm_node.commands import join
from swarm_node.commands.join import command, remembered
from swarm_node.commands.run import RUN
from swarm_node.commands.status import ask
from swarm_node.common.errors import UserError
from swarm_node.environments.dataset.environment import read
from swarm_node.settings import NodeConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.questions import DatasetConfig
from swarm_node.swarm.code import Invitation, RequiredEnvironment, encode
from swarm_node.swarm.inviting import chosen, of_node
from tests.commands import ended, killed_in_the_end, started
from tests.waiting import until

ME, ENTRANCE = (Identity.from_seed_bytes(bytes([k]) * 32).peer_id for k in (1, 2))
LAN, LAN_QUIC = f"/ip4/192.168.1.20/tcp/1/p2p/{ME}", f"/ip4/192.168.1.20/udp/1/quic-v1/p2p/{ME}"
BRIDGE, HERE = f"/ip4/172.17.0.1/tcp/1/p2p/{ME}", f"/ip4/127.0.0.1/tcp/1/p2p/{ME}"
WORLD, OTHERS = f"/ip4/8.8.8.8/tcp/1/p2p/{ME}", f"/ip4/9.9.9.9/tcp/1/p2p/{ENTRANCE}"
RELAYED = f"/ip4/9.9.9.9/tcp/1/p2p/{ENTRANCE}/p2p-circuit/p2p/{ME}"
SETTINGS = {
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
    "SWARM_NODE_NETWORK__MDNS": "false",
    "SWARM_NODE_NETWORK__EXCHANGE_SECONDS": "1",
    "SWARM_NODE_MODEL__NAME": "rare",
    "SWARM_NODE_THREADS": "1",
}


def test_a_code_leads_from_anywhere_and_from_the_local_network() -> None:
    assert chosen([HERE, LAN_QUIC, LAN, BRIDGE], []) == (LAN, BRIDGE)
    assert chosen([HERE], []) == (HERE,)
    assert chosen([HERE, LAN, BRIDGE], [LAN, OTHERS]) == (OTHERS, LAN, BRIDGE)
    more = [WORLD.replace("8.8.8.8", ip) for ip in ("8.8.4.4", "1.1.1.1")]
    assert chosen([LAN, WORLD, *more], [OTHERS])[0] == WORLD and LAN in chosen(
        [LAN, WORLD, RELAYED, more[1]], []
    )


def test_tasks_that_a_node_chose_from_are_not_part_of_a_code(tmp_path: Path) -> None:
    """Who joins has another model, and chooses as well."""
    answer = {
        "network": {
            "addresses": [LAN], "peers": [], "connections": {}, "swarm": "friends",
        },
        "questions": {"basics": "2"},
        "training": {"asks": {"basics": ["next/few"]}, "at_once": 10},
    }  # fmt: skip
    assert of_node(tmp_path, answer).asked == (RequiredEnvironment("basics", "2", ("next/few",)),)
    answer["training"]["chooses"] = True
    assert of_node(tmp_path, answer) == Invitation((LAN,), "friends")


def test_a_code_becomes_values_and_never_an_option_of_its_own() -> None:
    said = Invitation(
        (LAN,), "--home", (RequiredEnvironment("basics", "1", ("--seed/7", "next/few")),), 2
    )
    assert tomllib.loads(remembered(said, NodeConfig(seed=3), {"seed", "environment.at_once"})) == {
        "swarm": "--home",
        "network": {"suggested": [LAN]},
        "environment": {"tasks": ["--seed/7", "next/few"], "at_once": 0},
    }


@pytest.mark.slow
def test_a_file_of_questions_must_be_the_same(tmp_path: Path) -> None:
    rows = tmp_path / "tickets.csv"
    rows.write_text("prompt,answer\n" + "".join(f"{k} + 1 =,{k + 1}\n" for k in range(40)))
    other = tmp_path / "other.csv"
    other.write_text(rows.read_text().replace("39 + 1", "40 + 1"))
    version = read(DatasetConfig(file=str(rows))).version
    code = encode(
        Invitation(
            (LAN,),
            "friends",
            (RequiredEnvironment("dataset", version, ("dataset/train",), rows.name),),
        )
    )
    home = tmp_path / "home"
    for flags in ([], ["--dataset.file", str(other)]):
        with pytest.raises(UserError) as error:
            command([code, "--home", str(home), *flags])
        assert f"tickets.csv, version {version}" in str(error.value) and "--dataset.file" in str(
            error.value
        )
        assert not home.exists()


@pytest.mark.slow
@pytest.mark.network
def test_two_computers_need_one_command_each_and_the_second_remembers(tmp_path: Path) -> None:
    environment = {**os.environ, **SETTINGS}
    first, second = tmp_path / "first", tmp_path / "second"
    asked = ["--swarm", "friends", "--environment.tasks", "gcd/easy", "lcm/easy"]
    with killed_in_the_end(started("run", "--home", first, *asked, env=environment)):
        until(lambda: "invitation" in ask(first), 300, "the first node can invite")
        code = ended("invite", "--home", first).stdout.strip()
        assert code == ask(first)["invitation"]
        assert "invite others: swarm-node invite" in ended("status", "--home", first).stdout
        joined = ["join", code, "--home", second, "--environment.tasks", "gcd/easy"]
        for words in (joined, ["run", "--home", second]):
            with killed_in_the_end(started(*words, env=environment)):
                until(
                    lambda: ask(second).get("network", {}).get("connected"),
                    300,
                    f"{words[0]} connects",
                )
                there = ask(second)
                assert there["network"]["swarm"] == "friends" and there["training"]["asks"] == {
                    "reasoning_gym": ["gcd/easy"]
                }


def joined(home: Path, *flags: str) -> tuple[str, list[str]]:
    """What `join` remembers in the home, and the flags that it hands on to `run`."""
    code = encode(
        Invitation(
            (LAN,), "friends", (RequiredEnvironment("dataset", "1", ("dataset/train",), "q"),)
        )
    )
    given: list[str] = []
    patched = replace(RUN, do=given.extend)
    with patch.object(join, "RUN", patched), patch.object(join, "check"):
        command([code, "--home", str(home), *flags])
    return (home / "options.toml").read_text(), given


def test_join_writes_no_file_of_the_user_and_says_which_secret_to_repeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "my rows.csv"
    rows.write_text("question,answer\n1 + 1 =,2\n")
    asked = ["--dataset.file", str(rows), "--dataset.prompt", "question", "--dataset.salt", "hush"]
    flags = [*asked, "--environment.shots", "2", "--seed", "3"]
    kept, given = joined(tmp_path / "home", *flags)
    assert given == ["--home", str(tmp_path / "home"), *flags]
    assert tomllib.loads(kept) == {
        "swarm": "friends",
        "network": {"suggested": [LAN]},
        "environment": {"tasks": ["dataset/train"], "at_once": 0, "shots": 2},
        "dataset": {"prompt": "question"},
    }
    (line,) = capsys.readouterr().err.splitlines()
    # `run`, which follows, keeps the file in the user's record of homes
    assert line.endswith("does not store dataset.salt: next time give --dataset.salt ... again")
    assert "hush" not in line + kept


def test_a_home_that_join_wrote_needs_no_flags_and_no_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    joined(tmp_path / "home", "--environment.answer", "tags")
    capsys.readouterr()
    config = from_command_line(NodeConfig, ["--home", str(tmp_path / "home")], "swarm-node run")
    assert (config.swarm, config.network.suggested) == ("friends", (LAN,))
    assert config.environment.answer == "tags" and not capsys.readouterr().err
