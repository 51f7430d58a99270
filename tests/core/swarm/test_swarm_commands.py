"""`swarm-node swarm`: signers found a swarm and change it. tests/data/mistakes/more.txt has
more mistakes.
"""

from pathlib import Path
from shutil import copy

from protocol.card import Signed, follow
from swarm_node.commands.cli import dispatch
from swarm_node.common.errors import UserError
from tests.cards import KEYS

EXAMPLE = Path(__file__).parents[3] / "configs" / "example.manifest"


def test_a_card_is_made_signed_changed_and_never_taken_back(tmp_path, monkeypatch, capsys) -> None:
    def said(*words: str) -> str:
        try:
            dispatch(["swarm", *words])
        except UserError as error:
            return str(error)
        return capsys.readouterr().out.strip()

    monkeypatch.chdir(tmp_path)
    ann, bob, cem, dan = (said("key", name) for name in ("ann", "bob", "cem", "dan"))
    assert said("key", "ann") == ann and Path("ann").stat().st_mode & 0o777 == 0o600
    asked = [
        "--bootstrap",
        f"/ip4/203.0.113.7/tcp/31330/p2p/{dan}",
        "--tasks",
        "first/few",
        "second/few",
    ]
    few = [*asked[:2], "--tasks", "first/few", "--signers", ann, bob, cem]
    assert said("create", "x", *few, "--episodes", "100").startswith(
        "x: over the limits of a manifest: episodes: 100, where 2 to "
    )
    assert "threshold: 9, where 1 to 3 can be" in said("create", "x", *few, "--threshold", "9")
    assert not Path("x").exists()
    said("create", "a", "--signers", ann, bob, cem, *asked, "--notes", "\x1b[2J\u202e\n")
    said("sign", "a", "--key", "ann")
    assert said("verify", "a") == said("next", "a") == "a: too few signers"
    assert said("sign", "a", "--key", "dan") == "a: a signature that none of its signers made"
    said("sign", "a", "--key", "bob")
    assert "notes       ?[2J?↵" in (shown := said("verify", "a")) and shown.endswith(
        "signed by 2: complete, and in force"
    )
    made, example = (
        Signed.model_validate_json(file.read_bytes()).card for file in (Path("a"), EXAMPLE)
    )
    # With equal digests
    assert len({task.digest for task in made.tasks}) == 2 and example.tasks == made.tasks
    assert follow([EXAMPLE.read_bytes().rstrip()], "", example.issued) == example
    assert {*example.signers} == {each.peer_id for each in KEYS[:3]} and example.threshold == 2
    copy("a", "old")
    said("next", "a", "--signers", bob, cem, dan, "--days", "5")
    assert {f"+ signers     {dan}", f"- signers     {ann}", "  name        swarm"} <= {
        *said("show", "a").splitlines()
    }
    said("sign", "a", "--key", "dan")
    assert said("verify", "a", "--after", "old") == "a: too few signers"
    said("sign", "a", "--key", "cem")
    assert said("verify", "a", "--after", "old") == "a: too few signers of the manifest before"
    said("sign", "a", "--key", "bob")
    assert "this manifest ends soon" in said("verify", "a", "--after", "old")
    assert said("verify", "old", "--after", "a") == "old: older than the manifest known here"
    assert said("verify", "a", "--network", "b" * 26) == "a: of another network"
