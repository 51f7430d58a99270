"""A private swarm by the commands: founded, entered by codes, with nobody there who made them, and left."""

import os
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path
from shutil import copy

import pytest

from protocol.member import Refusal
from swarm_node.commands.cli import dispatch
from swarm_node.commands.home import load_identity
from swarm_node.commands.status import ask
from swarm_node.common.errors import UserError
from swarm_node.extensions.invite.code import decode
from swarm_node.network.process.keeper import PROOF_FILE, load_cards, load_proof
from swarm_node.network.process.service import free_port
from tests.commands import ended, killed_in_the_end, started
from tests.waiting import until

QUICK = ("--host", "127.0.0.1", "--no-mdns")
ALONE = {**os.environ, "SWARM_NODE_NETWORK__HOST": "127.0.0.1", "SWARM_NODE_MODEL__NAME": "rare"}


def swarm(*words: object) -> str:
    """What `swarm-node swarm` says, or why it does not."""
    said = StringIO()
    try:
        with redirect_stdout(said):
            dispatch(["swarm", *map(str, words)])
    except UserError as error:
        return str(error)
    return said.getvalue().strip()


def founded(folder: Path, port: int, *flags: str) -> Path:
    """A card that one signer signed; whoever has admit.key lets in; the bootstrap node has the home `a`."""
    file, door = folder / "private.card", load_identity(folder / "a").peer_id
    admit, signer = (swarm("key", folder / f"{name}.key") for name in ("admit", "signer"))
    asked = ("--bootstrap", f"/ip4/127.0.0.1/tcp/{port}/p2p/{door}", "--tasks", "first/few", "--admit", admit, *flags)
    assert swarm("create", file, "--signers", signer, *asked) == ""
    assert swarm("sign", file, "--key", folder / "signer.key") == ""
    return file


def test_a_code_of_an_admitter_lets_in_and_a_card_shows_and_changes_who_may(tmp_path: Path) -> None:
    file = founded(tmp_path, 31330, "--chain", "2")
    admit = ("admit", file, "--key", tmp_path / "admit.key")
    assert "chain       2" in swarm("show", file) and "private.card" not in swarm(*admit)
    assert str(Refusal.UNKNOWN) in swarm("admit", file, "--key", tmp_path / "signer.key")
    assert "needs the file of the cards" in swarm("admit", file, "--key", tmp_path / "absent.key")
    code = swarm(*admit, "--days", "3")
    assert len(code) < 450 and len(decode(code).proof) == 132
    newcomer = load_identity(tmp_path / "a")
    swarm("next", file, "--revoked", newcomer.peer_id, "--notes", "out")
    assert f"+ revoked     {newcomer.peer_id}" in swarm("show", file)
    swarm("sign", file, "--key", tmp_path / "signer.key")
    home = ("--home", tmp_path / "a", "--model.name", "rare")
    refused = ended("check", *home, "--card", file, "--card-code", code)
    assert refused.returncode == 2 and str(Refusal.REVOKED) in refused.stderr
    assert "this swarm is private" in ended("check", "--home", tmp_path / "b", "--card", file).stderr
    assert swarm("next", file, "--revoked", "none", "--chain", "1") == ""
    swarm("sign", file, "--key", tmp_path / "signer.key")
    assert str(Refusal.TOO_LONG) in swarm(*admit)
    assert swarm("next", file, "--admit", "none") == ""
    assert "- admit" in swarm("show", file) and "no proof" not in swarm("sign", file, "--key", tmp_path / "signer.key")
    assert load_cards(file)[1].members is None  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.network
def test_a_newcomer_enters_by_the_code_of_a_member_who_is_gone_and_no_stranger_does(tmp_path: Path) -> None:
    port = free_port()
    file, (a, b, c) = founded(tmp_path, port), (tmp_path / name for name in "abc")
    first = swarm("admit", file, "--key", tmp_path / "admit.key")
    with ExitStack() as swarm_of_one, ExitStack() as inviter:
        line = ("bootstrap", "--home", a, "--card", file, "--card-code", first, "--port", port, *QUICK)
        swarm_of_one.enter_context(killed_in_the_end(started(*line)))
        until(lambda: "invitation" in ask(a), what="a node that can invite")
        line = ("bootstrap", "--home", b, "--card", first, "--port", "0", *QUICK)  # no file: by the code alone
        inviter.enter_context(killed_in_the_end(started(*line)))
        until(lambda: "invitation" in ask(b), what="a member that can invite")
        code = ended("invite", "--home", b).stdout.strip()
        assert len(load_proof(b)) == 232 and len(decode(code).proof) == 332 and len(code) < 900
        inviter.close()
        for flags, says in (((), "private"), (("--card-code", code), "member of this private swarm for 29 days")):
            line = ("run", "--home", c, "--card", file, *flags, "--max-rounds", "1")
            ran = ended(*line, env=ALONE)
            assert (ran.returncode == 0) == bool(flags) and says in ran.stdout + ran.stderr, ran.stderr
        until(lambda: ask(a)["network"]["counters"].get("enter bytes in"), what="its entrance")
        assert load_identity(c).peer_id in {each["peer"] for each in ask(a)["network"]["peers"]}
        assert "  private; a member for 29 days" in ask(a)["besides"]
        stranger = ended("join", ended("invite", "--home", a).stdout.strip()[:-8], "--home", tmp_path / "d", env=ALONE)
        assert stranger.returncode == 2
    (c / PROOF_FILE).unlink()
    assert "private" in ended("run", "--home", c, env=ALONE).stderr
    copy(b / PROOF_FILE, c / PROOF_FILE)  # of another node
    assert str(Refusal.NOT_OWN) in ended("run", "--home", c, env=ALONE).stderr
