"""No path of this machine leaves in a bundle, however it is written."""

import json
import zipfile
from pathlib import Path

import pytest

from swarm_node.commands.bundle import write_bundle
from swarm_node.home.folder import load_identity
from swarm_node.settings import NodeConfig, Section


class Files(Section):
    """The section of an extension, whose options name files."""

    served: Path
    rows: str
    puzzles: Path


class WithFiles(NodeConfig):
    """The configuration of a node with the section `Files`."""

    files: Files


def test_a_bundle_has_no_path_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "annabel"))
    home = tmp_path / "my secret client" / "home"
    home.mkdir(parents=True)
    models = tmp_path / "clients" / "acme corp" / "model"
    models.mkdir(parents=True)
    (tmp_path / "clients" / "acme corp" / "rows.jsonl").write_text("{}")
    (tmp_path / "clients" / "plug.py").write_text("")
    config = WithFiles.model_validate(
        {
            "home": home,
            "model": {"name": "clients/acme corp/model"},
            "files": {
                "served": "~/clients/acme corp/served",
                "rows": "clients/acme corp/rows.jsonl",
                "puzzles": models / "puzzles.json",
            },
            "environment": {"use": ["clients/plug.py:Task"], "tasks": ["gcd/tiny"]},
        }
    )
    said = {
        "event": "Warned",
        "time": 1.0,
        "text": f"cannot read {models}/x, nor clients/acme corp/rows.jsonl, nor {home}",
    }
    (home / "events.jsonl").write_text(json.dumps(said) + "\n")
    (home / "network.log").write_text(
        f'File "{home}/x.py", line 3, in ~/clients/acme corp/served\n'
    )
    lines = [
        f"ok  home {home}",
        "bad  clients/acme corp/model has no weights",
        f"{tmp_path}/annabel/other place/x",
    ]
    write_bundle(tmp_path / "b.zip", config, None, lines)
    with zipfile.ZipFile(tmp_path / "b.zip") as bundle:
        parts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    for name, text in parts.items():
        for part in ("acme", "clients", "client", str(tmp_path), tmp_path.name, "annabel"):
            assert part not in text, (name, part)
    options = json.loads(parts["options.json"])
    assert options["environment.tasks"] == ["gcd/tiny"] and options["files.rows"] == "rows.jsonl"
    assert options["model.name"] == "model"


def test_a_bundle_has_figures_and_neither_keys_nor_addresses_nor_names(tmp_path: Path) -> None:
    home, file = tmp_path / "home", tmp_path / "bundle.zip"
    home.mkdir()
    (home / "events.jsonl").write_text(
        '{"event": "Notice", "text": "at /ip4/203.0.113.7/tcp/1", "time": 1}\n'
    )
    (home / "peers.json").write_text('{"port": 1, "peers": ["203.0.113.7"]}')
    peer = load_identity(home).peer_id
    config = NodeConfig.model_validate(
        {"home": home, "network": {"peers": f"/ip4/203.0.113.7/tcp/1/p2p/{peer}"}}
    )
    answer = {
        "network": {
            "running": True,
            "peers": [{"state": "ok", "peer": peer}],
            "addresses": ["/ip4/203.0.113.7"],
        }
    }
    write_bundle(file, config, answer, [f"ok  identity: {peer} in {home}"])
    with zipfile.ZipFile(file) as bundle:
        whole = b"".join(bundle.read(name) for name in bundle.namelist())
        assert json.loads(bundle.read("options.json"))["training.learning_rate"] == 3e-4
        assert json.loads(bundle.read("status.json"))["network"]["peer_states"] == {"ok": 1}
    key = (home / "identity.key").read_bytes()
    for secret in (b"203.0.113.7", peer.encode(), key[4:36], str(tmp_path).encode()):
        assert secret not in whole
