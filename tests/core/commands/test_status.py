"""When a health check fails, and what `status` prints."""

import sysconfig
from pathlib import Path
from typing import Any

import pytest

from swarm_node.commands.cli import dispatch
from swarm_node.commands.doctor import BOOTSTRAP, can_compile, verdict
from swarm_node.commands.status import ask, peer_lines, problems, state_of, status_lines
from swarm_node.common.errors import Finding, Severity, UserError
from swarm_node.home.folder import in_use, owned
from swarm_node.settings.limits import PAUSE_FILE


def node(**changes: Any) -> dict[str, Any]:
    """What a node answers. A change goes to `training` if that has such a key, else to
    `network`.
    """
    training = {
        "round": 7, "round_seconds": 30.0, "reward": 0.5, "external_informative": 2,
        "seconds_since": 20.0, "received": 9, "rejected": {}, "resting": "",
    }  # fmt: skip
    network = {
        "enabled": True, "running": True, "uptime": 99.0, "addresses": ["/ip4/127.0.0.1/tcp/1"],
        "reachability": "loopback only", "connected": 0, "relayed": 0, "peers": [],
        "bootstrap_nodes": [], "counters": {}, "backend": "hivemind", "swarm": "s",
        "leaving": False, "resting": "resting" in changes,
    }  # fmt: skip
    role = changes.pop("role", "node")
    training |= {key: value for key, value in changes.items() if key in training}
    network |= {key: value for key, value in changes.items() if key not in training}
    answer = {"role": role, "peer_id": "12D3x", "network": network}
    return answer if role == "bootstrap" else {**answer, "training": training}


def started(seconds: float, running: bool = True, **about: Any) -> dict[str, Any]:
    """What a node answers before its first round has ended."""
    return node(running=running) | {
        "training": {"seconds_since": seconds, "received": 0, "rejected": {}, **about}
    }


def stranger(note: str = "is in swarm x, this node is in s") -> dict[str, Any]:
    return {
        "peer": "12D3y",
        "note": note,
        "last_seen": 1.0,
        "round": None,
        "pulls": 0,
        "state": "ok",
        "addresses": [],
    }


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"connected": 0}, ""),  # it trains alone
        ({"enabled": False, "running": False}, ""),
        ({"seconds_since": 500.0, "round_seconds": 100.0}, ""),  # long rounds are given time
        ({"running": False, "seconds_since": 99_999.0, "resting": "on battery"}, ""),
        ({"role": "bootstrap"}, ""),
        ({"connected": 2, "peers": [stranger(), stranger(note="")]}, ""),
        ({"seconds_since": 181.0}, "stands still"),
        ({"seconds_since": 121.0, "round_seconds": 0.1}, "stands still"),
        ({"running": False}, "network process is down"),
        ({"running": False, "leaving": True}, "the node was told to stop"),
        ({"addresses": []}, "accepts no connections"),
        (
            {"connected": 2, "peers": [stranger(), stranger()]},
            "alone: every peer it found is in swarm x",
        ),
    ],
)
def test_a_health_check_fails_for_what_keeps_a_node_from_training_and_names_it(
    changes: dict[str, Any], words: str
) -> None:
    found = problems(node(**changes))
    assert len(found) == bool(words) and words in "".join(found)


@pytest.mark.parametrize(
    ("answer", "state", "line"),
    [
        (node(), "healthy", "healthy: yes"),
        (node(seconds_since=999.0), "unhealthy", "healthy: no"),
        (node(resting="on battery", running=False), "resting", "resting: on battery"),
        (
            started(12.0, running=False),
            "starting",
            "starting: no round has ended yet, 12 s after the start",
        ),
        (started(601.0), "unhealthy", "healthy: no"),
        (started(601.0, published=0), "healthy", "healthy: yes"),  # a contributor has no rounds
        (node(role="bootstrap"), "healthy", "healthy: yes"),
        (node(enabled=False, running=False), "healthy", "healthy: yes"),
    ],
)
def test_the_first_line_says_which_state_a_node_is_in(
    answer: dict[str, Any], state: str, line: str
) -> None:
    found = problems(answer)
    assert state_of(answer, found) == state
    lines = status_lines({"healthy": not found, "problems": found, "state": state, **answer})
    assert lines[0] == line and ("network: off" in lines) == (not answer["network"]["enabled"])


def test_who_differs_in_what_is_named_where_nobody_asks_the_same_questions() -> None:
    other = {**stranger(note=""), "authored": 0, "asks": "rows/train of dataset sha256.ab"}
    answer = node(peers=[other, {**stranger(note=""), "authored": 0}]) | {
        "questions": {"dataset": "sha256.cd"}
    }
    (found,) = problems(answer)
    assert "none has this node's questions, which are of dataset sha256.cd" in found
    assert (
        "12D3y has rows/train of dataset sha256.ab" in found
        and state_of(answer, [found]) == "unhealthy"
    )
    assert not problems(node(peers=[other, {**other, "authored": 1, "asks": ""}]))


def test_which_tasks_a_node_has_chosen_is_a_line() -> None:
    chosen = {"practised": {"gcd/easy": 0.25}, "dropped": {"lcm/easy": 0.0}, "unasked": 3}
    answer = {**node(), "training": {**node()["training"], "chosen": chosen}}
    lines = status_lines({"healthy": True, "problems": [], **answer})
    told = "1 practised, 1 too hard, 3 not tried yet; recently right: gcd/easy 25%"
    assert f"tasks: {told}" in lines
    answer["training"] |= {"chosen": {"practised": "all"}}
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        status_lines({"healthy": True, "problems": [], **answer})


def test_where_no_node_runs_it_is_said_what_to_do(tmp_path: Path) -> None:
    assert "swarm-node run" in ask(tmp_path)["problems"][0]
    with owned(tmp_path):
        assert in_use(tmp_path) and "does not answer" in ask(tmp_path)["problems"][0]
    assert not in_use(tmp_path)


def test_what_peers_write_reaches_no_terminal() -> None:
    peer = stranger(note="speaks \x1b]0;evil\x07") | {
        "last_seen": None,
        "addresses": ["/dns4/\x1b[2Jx/tcp/1"],
    }
    answer = node(peers=[peer])
    answer["network"]["bootstrap_nodes"] = [{"peer": "12D3x", "state": "failed: \x1b[31m\n"}]
    shown = "".join(peer_lines(answer))
    shown += "".join(status_lines({"healthy": True, "problems": [], **answer}))
    assert not any(ord(char) < 32 for char in shown)


def test_a_peer_is_told_in_lines_that_fit_and_can_be_copied() -> None:
    peer = stranger(note="") | {
        "peer": "12D3KooWRc7eAkiJs59EQG9wpWkyEskEXiZWuhUTYH2TXhfWKQCB", "last_seen": 1.2,
        "round": 89, "authored": 80, "served": 86, "faults": {"late": 2},
        "addresses": ["/ip4/172.18.0.4/tcp/60253", "/ip4/172.18.0.4/udp/60253/quic-v1"],
    }  # fmt: skip
    assert peer_lines(node(peers=[peer])) == [
        peer["peer"],
        "  ok, last seen 1 s ago, round 89, gave 80, took 86, charged for late: 2",
        "  /ip4/172.18.0.4/tcp/60253",
    ]


def test_the_verdict_is_that_of_the_worst_finding() -> None:
    def code(*levels: Severity) -> int:
        return verdict([Finding("x", level, "") for level in levels])[0]

    assert code(Severity.OK, Severity.NOTE) == 0 and code(Severity.OK, Severity.ALONE) == 1
    assert code(Severity.ALONE, Severity.BAD, Severity.OK) == 3


def test_a_compiler_without_headers_builds_no_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert not can_compile()
    (tmp_path / "gcc").touch(mode=0o755)
    assert not can_compile()
    (tmp_path / "Python.h").touch()
    assert can_compile()


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_a_bootstrap_node_that_cannot_rest_says_so_and_what_stops_it(
    command, tmp_path, monkeypatch
) -> None:
    answer = node(role="bootstrap")
    monkeypatch.setattr("swarm_node.network.process.control.ask", lambda home: answer)
    with pytest.raises(UserError, match=f"it does not train, so it cannot {command}; Ctrl-C"):
        dispatch([command, "--home", str(tmp_path)])
    assert not (tmp_path / PAUSE_FILE).exists()


def test_doctor_does_not_say_that_a_bootstrap_node_trains() -> None:
    assert verdict([BOOTSTRAP]) == (0, "others can join through this bootstrap node")
    code, text = verdict([BOOTSTRAP, Finding("listening", Severity.ALONE, "not yet")])
    assert code == 1 and "train" not in text and "marked alone" in text
    # A node that was given bootstrap nodes is none
    given = Finding("bootstrap node", Severity.OK, "/ip4/203.0.113.7/tcp/1: answers")
    assert verdict([given])[1].endswith("can train and share")


def test_bootstrap_names_its_own_flags(monkeypatch) -> None:
    from swarm_node.commands.bootstrap import as_written

    text = "another program uses it; choose another --network.port; --network.no-mdns leaves it out"
    own = "another program uses it; choose another --port; --no-mdns leaves it out"
    assert as_written(text, ["--port", "1"]) == own
    assert as_written(text, ["--network.port", "1"]) == text
