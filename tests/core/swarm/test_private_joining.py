"""A private swarm through the commands: founding, entering by the code of a member who is gone,
revoking.
"""

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from protocol.card import told as as_people_read
from protocol.member import ProofFault
from swarm_node.commands.status import ask
from swarm_node.home.folder import load_identity
from swarm_node.network.process.keeper import PROOF_FILE, load_proof
from swarm_node.network.process.service import free_port
from swarm_node.swarm.code import decode
from tests.commands import ended, killed_in_the_end, read_until, started
from tests.waiting import until

ALONE = {**os.environ, "SWARM_NODE_NETWORK__HOST": "127.0.0.1", "SWARM_NODE_MODEL__NAME": "rare"}


def said(*words: object) -> str:
    ran = ended(*words, env=ALONE)
    return (ran.stdout + ran.stderr).strip()


def founded(folder: Path, port: int) -> tuple[Path, str]:
    """A card with one signer, and a code signed by its admit key. The bootstrap node has the home
    `a`.
    """
    file, door = folder / "private.manifest", load_identity(folder / "a").peer_id
    admit, signer = (said("swarm", "key", folder / f"{name}.key") for name in ("admit", "signer"))
    asked = (
        "--bootstrap",
        f"/ip4/127.0.0.1/tcp/{port}/p2p/{door}",
        "--tasks",
        "first/few",
        "--admit",
        admit,
    )
    assert said("swarm", "create", file, "--signers", signer, *asked) == ""
    assert said("swarm", "sign", file, "--key", folder / "signer.key") == ""
    return file, said("swarm", "admit", file, "--key", folder / "admit.key")


def test_a_card_says_who_may_let_in_and_who_is_out(tmp_path: Path) -> None:
    file, code = founded(tmp_path, 31330)
    sign, admit = (
        ("swarm", "sign", file, "--key", tmp_path / "signer.key"),
        ("swarm", "admit", file, "--key"),
    )
    assert len(code) < 450 and len(decode(code).proof) == 132
    assert as_people_read(ProofFault.UNKNOWN) in said(*admit, tmp_path / "signer.key")
    own = load_identity(tmp_path / "a").peer_id
    for flags, row, why in (
        (("--revoked", own), f"+ revoked     {own}", ProofFault.REVOKED),
        (("--revoked", "none", "--chain", "1"), "+ chain       1", ProofFault.TOO_LONG),
        (("--admit", "none"), "- chain       1", None),
    ):
        said("swarm", "next", file, *flags)
        assert row in said("swarm", "show", file) and said(*sign) == ""
        told = said("check", "--home", tmp_path / "a", "--manifest", file, "--manifest-code", code)
        assert (f"this swarm is private: {as_people_read(why)}" in told) == bool(why)


@pytest.mark.slow
@pytest.mark.network
def test_a_newcomer_enters_by_the_code_of_a_member_who_is_gone_and_no_stranger_does(
    tmp_path: Path,
) -> None:
    port, (a, b, c) = free_port(), (tmp_path / name for name in "abc")
    file, first = founded(tmp_path, port)
    with ExitStack() as founder, ExitStack() as inviter:
        # B: by the code alone
        for home, card, at, stack in ((a, file, port, founder), (b, first, 0, inviter)):
            line = (
                "bootstrap",
                "--home",
                home,
                "--manifest",
                card,
                "--manifest-code",
                first,
                "--port",
                at,
                "--no-mdns",
            )
            stack.enter_context(killed_in_the_end(started(*line, "--host", "127.0.0.1")))
            until(lambda home=home: "invitation" in ask(home), what="a node that can invite")
        code = ended("invite", "--home", b).stdout.strip()
        assert len(load_proof(b)) == 232 and len(decode(code).proof) == 332 and len(code) < 900
        inviter.close()
        run = ("run", "--home", c, "--manifest", file)
        assert "private" in said(*run, "--max-rounds", "1")
        with killed_in_the_end(
            started(*run, "--manifest-code", code, "--network.host", "127.0.0.1")
        ) as newcomer:
            read_until(newcomer, "member of this private swarm for 29 more days")
            peer = load_identity(c).peer_id
            until(
                lambda: peer in {each["peer"] for each in ask(a)["network"]["peers"]}, what="c at a"
            )
        assert any("private; a member until" in each for each in ask(a)["besides"])
    (c / PROOF_FILE).write_bytes(load_proof(b))  # the proof of another node
    assert str(ProofFault.NOT_OWN) in said("run", "--home", c)
