"""Whatever is started in the folder of a stranger runs nothing of it: modules lie there under the
names of all that this program imports, and write down that they were imported.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

from swarm_node.commands import table
from swarm_node.generation.vllm.server import NoServer, VllmServer
from tests.commands import ENDS_SECONDS
from tests.own_words import written

PROGRAM = Path(sys.executable).with_name("swarm-node")
ROOT = Path(__file__).parents[2]
RAN = "a-module-of-the-stranger-ran"
# posix is built in: no file takes its place
HOSTILE = """
import posix
posix.write(posix.open({ran!r}, posix.O_CREAT | posix.O_APPEND | posix.O_WRONLY), b"{name} ")
raise ImportError("hostile")
"""
OF_NOBODY = (
    "sitecustomize",
    "usercustomize",
    "vllm",
    "bitsandbytes",
    "flash_attn",
    "wandb",
    "triton",
)
TASKSET = ROOT / "examples/taskset/arithmetic.py"
HAS_TASK_SETS = importlib.util.find_spec("verifiers") is not None
# A run that starts every kind of child: for scoring, the network with its daemon, the generator,
# the page, the facts of a plug-in, and the readers of a file and of a task set
OWN_QUESTIONS = (
    "--dataset.file {words} --environment.use {out}/my_task.py:Repeat --environment.tasks "
    "gcd/tiny,dataset/train,repeat/all"
) + (f",taskset/train --taskset.name {TASKSET}" if HAS_TASK_SETS else "")
# Arguments with which each command gets as far as it can in a moment, and how it ends. {out} is a
# folder, {home} the home of a node that has run, {words} a file of questions
COMMANDS: Mapping[str, tuple[str, int]] = {
    "run": (
        f"--home {{home}} --model.name rare --max-rounds 1 --round.questions 2 {OWN_QUESTIONS} "
        "--network.host 127.0.0.1 --network.no-mdns --page.listen 127.0.0.1:0 "
        "--asynchronous.enabled --validation.every 1 --validation.questions 2",
        0,
    ),
    "simulate of processes": (
        "--out {out}/processes --nodes 1 --rounds 1 --arms 2/0 --engine process --model.name rare "
        "--round.questions 2",
        0,
    ),
    "simulate": (
        "--out {out}/memory --nodes 1 --rounds 1 --arms 2/0 --model.name rare --round.questions 2",
        0,
    ),
    "task try": ("{words}", 0),
    "check": ("--home {out}/checked --model.name rare", 0),
    "doctor": ("--home {out}/checked --model.name rare --network.host 127.0.0.1", 1),
    "bootstrap": ("--home {out}/bootstrap --host 999", 2),
    "contribute": ("--home {out}/x --api http://127.0.0.1:1 --model x --key-file {out}/no", 2),
    "page": ("{out}/nothing", 2),
    "pause": ("--home {out}/nothing", 2),
    "resume": ("--home {out}/nothing", 2),
    "status": ("--home {out}/nothing", 1),
    "peers": ("--home {out}/nothing", 2),
    "invite": ("--home {out}/nothing", 2),
    "join": ("swarm:nothing", 2),
    "home id": ("--home {home}", 0),
    "home backup": ("{out}/backup.tar --home {home}", 0),
    "home restore": ("{words} --home {out}/restored", 2),
    "swarm key": ("{out}/key", 0),
    "swarm admit": ("{words} --key {out}/nothing", 2),
    "swarm create": ("{out}/card --nothing", 2),
    "swarm next": ("{words}", 2),
    "swarm show": ("{words}", 2),
    "swarm sign": ("{words} --key {out}/nothing", 2),
    "swarm verify": ("{words} --network nothing", 2),
    "view plot": ("{home} --out {out}/plots", 2),
    "ask": ("2+3? --home {out}/nothing", 2),
    "model eval": ("rare --tasks gcd/tiny --questions 2", 0),
    "model export": ("{out}/exported --home {home}", 0),
    "model push": ("nobody/nothing --home {out}/nothing", 2),
}
# They read what `run` has written
AFTER_A_RUN = {"home id", "home backup", "view plot", "model export"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a stranger: a module under each name that can be imported here, ours included."""
    made = tmp_path_factory.mktemp("stranger")
    names = {*sys.stdlib_module_names, *metadata.packages_distributions(), *OF_NOBODY}
    for name in [name for name in names if name.isidentifier()]:
        (made / f"{name}.py").write_text(HOSTILE.format(ran=str(made / RAN), name=name))
    assert {"json", "torch", "pydantic", "swarm_node", "protocol"} <= {
        file.stem for file in made.glob("*.py")
    }
    return made


def ended(line: Sequence[object], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*map(str, line)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=ENDS_SECONDS,
        check=False,
    )


def ran(folder: Path) -> str:
    """Names of the modules of the stranger that were imported since the last look."""
    place = folder / RAN
    found = place.read_text() if place.exists() else ""
    place.unlink(missing_ok=True)
    return found


def test_a_python_without_the_flag_runs_them(folder: Path) -> None:
    """Else the tests below could not fail."""
    ended([sys.executable, "-c", "import json"], folder)
    assert ran(folder) == "json "
    ended([sys.executable, "-m", "swarm_node", "--version"], folder)
    assert "swarm_node " in ran(folder)


def test_every_command_is_tried() -> None:
    assert {name.partition(" of ")[0] for name in COMMANDS} == {*table.COMMANDS}


@pytest.mark.slow
@pytest.mark.network
def test_no_command_runs_a_module_of_the_current_folder(folder: Path, tmp_path: Path) -> None:
    given = {"out": tmp_path, **written(tmp_path)}

    def wrong(name: str) -> str:
        arguments, code = COMMANDS[name]
        command = name.partition(" of ")[0]
        filled = arguments.format_map(given).split()
        done = ended([PROGRAM, *command.split(), *filled], folder)
        hostile = "hostile" in done.stdout + done.stderr
        if done.returncode == code and not hostile:
            return ""
        return f"{name}: {done.returncode}, {(done.stderr or done.stdout)[-400:]}"

    first = [name for name in COMMANDS if name not in AFTER_A_RUN]
    with ThreadPoolExecutor(2) as pool:
        failures = [*pool.map(wrong, first)]
        failures += pool.map(wrong, sorted(AFTER_A_RUN))
    assert "\n".join(filter(None, failures)) == ""
    assert ran(folder) == ""


SCRIPT = """
import helper_of_the_user
import swarm_node

node = swarm_node.run(
    home={home!r}, max_rounds=1, network={{"enabled": False}}, model={{"name": "rare"}},
    round={{"questions": 2, "sampler": "of_the_user.samplers:Mine"}},
    environment={{"tasks": ["gcd/tiny"]}},
)
print(node.wait().round, helper_of_the_user.WORD)
"""
SAMPLER = """
from helper_of_the_user import WORD
from swarm_node.rollouts.sampler import UniformSampler

class Mine(UniformSampler):
    pass
"""


@pytest.mark.slow
def test_a_script_that_runs_a_node_there_runs_its_own_modules_alone(
    folder: Path, tmp_path: Path
) -> None:
    """The script and what lies beside it are the user's: they go on working."""
    (tmp_path / "helper_of_the_user.py").write_text("WORD = 'mine'\n")
    (tmp_path / "of_the_user").mkdir()
    (tmp_path / "of_the_user" / "samplers.py").write_text(SAMPLER)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(home=str(tmp_path / "home")))
    done = ended([sys.executable, script], folder)
    assert (done.returncode, done.stdout) == (0, "1 mine\n"), done.stderr
    assert ran(folder) == ""


def test_a_vllm_server_and_what_it_starts_take_no_module_from_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM starts Pythons with -m by itself."""
    inner = tmp_path / "site" / "vllm" / "entrypoints" / "openai"
    inner.mkdir(parents=True)
    (inner / "api_server.py").write_text(
        "import json, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'json.tool', '--help'], check=True)\n"
    )
    monkeypatch.chdir(folder)
    log = tmp_path / "log"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    server = VllmServer("", (), on_cpu=True, log=log)
    with pytest.raises(NoServer):
        server.start(lambda url: False, ENDS_SECONDS)
    assert "usage:" in log.read_text()
    assert ran(folder) == ""
