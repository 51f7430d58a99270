"""docker/monitoring: what its files name exists, its rules do what they say, and promtool accepts a
page.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import yaml

from swarm_node.page.metrics import COUNTERS, exposition
from swarm_node.page.node import SUMMED, NodeWatch
from swarm_node.page.page import Page
from swarm_node.settings import BootstrapConfig
from swarm_node.settings.command_line import from_command_line
from swarm_node.settings.page import PageConfig
from tests.core.page.conftest import read_all
from tests.runs import home_with, line, round_done

MONITORING = Path(__file__).parents[3] / "docker" / "monitoring"
PROMTOOL = shutil.which("promtool")
TRAINING = {
    "round": 3,
    "round_seconds": 1.5,
    "seconds_since": 2.0,
    "received": 9,
    "rejected": {"wrong seed": 1},
}
NETWORK: dict[str, Any] = {
    "enabled": True,
    "running": True,
    "uptime": 9.0,
    "restarts": 0,
    "dropped": 0,
}
NETWORK |= {
    "swarm": "s",
    "protocol": 1,
    "backend": "hivemind",
    "reachability": "public",
    "connected": 2,
    "relayed": 1,
}
NETWORK |= {
    "peers": [
        {"state": "ok", "last_seen": 1.0, "behind": True},
        {"state": "banned", "behind": True},
    ]
}
NETWORK |= {
    "bootstrap_nodes": [
        {"peer": f"12D3{k}", "given": k < 2, "state": "connected" * k} for k in range(3)
    ]
}
NETWORK |= {"counters": {"exchange bytes in": 10, "exchange bytes out": 20, "groups served": 3}}
STATUS: dict[str, Any] = {"healthy": True, "problems": [], "role": "node", "peer_id": "12D3x"}
STATUS |= {
    "training": TRAINING,
    "network": NETWORK,
    "card": {"number": 3, "issued": 100, "expires": 200},
}
STATUS |= {"used": {"cpu_seconds": 9.5, "memory_bytes": 1e9, "gpu_bytes": 2e9}}


def text_of(tmp_path: Path) -> str:
    home = home_with(tmp_path, 3)
    with (home / "events.jsonl").open("a") as file:
        file.write(
            line(
                {
                    "event": "Validated",
                    "time": 1.0,
                    "round": 3,
                    "reward": 0.5,
                    "questions": 4,
                    "best": True,
                }
            )
        )
    page = Page(home, lambda _: STATUS, monotonic)
    read_all(page.node)
    return exposition(page, STATUS).decode()


def expressions() -> Iterator[str]:
    dashboard = json.loads((MONITORING / "grafana" / "dashboard.json").read_text())
    yield from (target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    yield dashboard["templating"]["list"][0]["query"]["query"]
    yield from re.findall(r"^\s+expr: (.+)$", (MONITORING / "rules.yml").read_text(), re.MULTILINE)


def test_every_metric_that_a_panel_or_a_rule_names_exists(tmp_path: Path) -> None:
    served = set(re.findall(r"^(swarm_node_\w+)", text_of(tmp_path), re.MULTILINE))
    recorded = set(re.findall(r"record: (\S+)", (MONITORING / "rules.yml").read_text()))
    named = {
        name
        for each in expressions()
        for name in re.findall(r"(?:instance:)?swarm_node_\w+(?::\w+)?", each)
    }
    assert len(named) > 20 and named - served - recorded == set()


def test_the_card_the_bootstrap_nodes_given_and_peers_behind_are_metrics(tmp_path: Path) -> None:
    found = re.findall(
        r"^swarm_node_((?:card|bootstrap|peers).*) (.+)$", text_of(tmp_path), re.MULTILINE
    )
    assert dict(found) == {
        "card_number": "3.0", "card_issued_timestamp_seconds": "100.0",
        "card_expires_timestamp_seconds": "200.0", 'bootstrap_reachable{peer="12D30"}': "0.0",
        'bootstrap_reachable{peer="12D31"}': "1.0", "peers_behind": "1.0",
    }  # fmt: skip


def test_a_round_without_a_reward_or_a_step_has_no_such_metric_and_no_point_in_a_curve(
    tmp_path: Path,
) -> None:
    home = home_with(tmp_path, 2)
    none = dict.fromkeys(("reward", "entropy", "loss", "grad_norm", "external_reward"))
    with (home / "events.jsonl").open("a") as file:
        file.write(
            line(round_done(2, **none, reward_by_task={}, step={**none, "optimizer_steps": 0}))
        )
    page = Page(home, lambda _: STATUS, monotonic)
    read_all(page.node)
    text = exposition(page, STATUS).decode()
    assert not re.findall(
        r"^swarm_node_(reward|entropy|loss|grad_norm|external_reward) ", text, re.MULTILINE
    )
    assert "swarm_node_rounds_total 3.0" in text
    series = page.node.state()["recent"]["series"]
    assert series["reward"] == [0.25, 0.25, None] and series["entropy"] == [1.0, 1.0, None]


def test_no_counter_of_events_stands_still(tmp_path: Path) -> None:
    home = home_with(tmp_path, 3)
    done = {"CheckpointSaved": {}, "Warned": {"text": "?"}, "Validated": {"reward": 0.5}}
    with (home / "events.jsonl").open("a") as file:
        file.writelines(
            line({"event": event, "time": 1.0, "round": 3, **about})
            for event, about in done.items()
        )
    node = NodeWatch(home)
    read_all(node)
    assert [name for name in (*COUNTERS, *SUMMED) if not node.totals[name]] == []


@pytest.mark.skipif(not PROMTOOL, reason="needs Prometheus: apt install prometheus")
@pytest.mark.slow
def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    for arguments in (("check", "config", "prometheus.yml"), ("test", "rules", "rules_test.yml")):
        done = subprocess.run(
            [PROMTOOL, *arguments], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    amtool = shutil.which("amtool")
    assert amtool is not None, "needs Alertmanager: apt install prometheus-alertmanager"
    done = subprocess.run(
        [amtool, "check-config", MONITORING / "alertmanager.yml"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=text_of(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_unit_of_the_page_has_options_that_exist() -> None:
    unit = (MONITORING.parents[1] / "deploy" / "systemd" / "swarm-node-page.service").read_text()
    (words,) = re.findall(r"^ExecStart=\S+ page /var/lib/swarm-node (.+)$", unit, re.MULTILINE)
    config = from_command_line(PageConfig, words.split(), "page")
    assert (config.listen, config.open_metrics) == ("127.0.0.1:8080", True)


def test_what_a_founder_composes_is_hardened_and_set_by_the_variables_of_the_page_alone() -> None:
    text = (MONITORING / "compose.yaml").read_text()
    services, like = (
        yaml.safe_load(each.read_text())["services"]
        for each in (MONITORING / "compose.yaml", MONITORING.parent / "compose.yaml")
    )
    for key in ("read_only", "tmpfs", "cap_drop", "security_opt", "pids_limit", "restart"):
        assert services["bootstrap"][key] == services["node"][key] == like["bootstrap"][key], key
    words = [re.sub(r"\$\{\w+:-(\w+)\}", r"\1", word) for word in services["bootstrap"]["command"]]
    config = from_command_line(BootstrapConfig, words[1:], "bootstrap")
    assert config.port == 31330 and config.page.names == (
        "bootstrap",
        "localhost",
    )
    page = (MONITORING.parents[1] / "docs" / "how-to" / "found_a_swarm.md").read_text()
    saved = page.partition('title=".env"')[2].partition("```")[0]
    assert {*re.findall(r"\$\{(\w+):", text)} - {"SWARM_NODE_IMAGE"} == {
        *re.findall(r"^(\w+)=", saved, re.M)
    }


@pytest.mark.parametrize("state", ["starting", "resting", "unhealthy"])
def test_a_node_that_rests_or_starts_has_no_age_of_a_round(state: str, tmp_path: Path) -> None:
    resting = TRAINING | ({} if state == "starting" else {"resting": "paused"})
    page = Page(home_with(tmp_path, 3), lambda _: STATUS, monotonic)
    assert (
        "round_age" not in exposition(page, STATUS | {"state": state, "training": resting}).decode()
    )
    assert "round_age" in (text := exposition(page, STATUS | {"state": "healthy"}).decode())
    assert (
        f'version="{metadata.version("textswarm")}"' in text
        and "swarm_node_cpu_seconds_total 9.5" in text
    )
