"""What a home survives: damaged files, signals at any moment, a disk that is full at any write.

    python -m lab.fuzzing.home --json        # docs/results/at_home.md

Every case is a real node in a home of its own, made of one that ran before. Looked at afterwards: how it ended,
that it said so in lines without a traceback, and what was lost. Allowed is one line and the code that
docs/reference/exit_codes.md has, and the loss of the round under way; after SIGKILL, of the rounds since the last
checkpoint. Full disks are small file systems in memory, which needs root; without it they are left out, and it says so.
"""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.benchmarks import command
from swarm_node.commands import cli

BASE_ROUNDS = 3
FLAGS = (
    "--model.name",
    "rare",
    "--network.no-enabled",
    "--threads",
    "1",
    "--round.questions",
    "2",
    "--checkpoint.every",
    "1",
)
SECONDS = 120.0  # for a case; the machine may be busy
SIGNALS = {"SIGINT": (0, 130), "SIGTERM": (0, -15), "SIGHUP": (0, -1), "SIGKILL": (-9,)}  # with the codes allowed
MOMENTS = 12
KILOBYTES = (0, 4, 8, 16, 32, 64, 12_000, 16_000)  # free on the disk, beside those of `rooms`


@dataclass(frozen=True)
class Case:
    """What was done to a home, and how the node in it ended."""

    kind: str  # "file", "signal" or "disk"
    name: str
    code: int
    line: str  # the last it said
    lost: int  # rounds that had ended and are not in the newest whole checkpoint
    wrong: str  # what should not be; "" where all is well


def main() -> None:
    parser = command.parser("lab.fuzzing.home", __doc__)
    parser.add_argument("--only", choices=["file", "signal", "disk"], help="one kind of case")
    parser.add_argument("--some", type=int, default=1, help="every so manieth case only")
    parser.add_argument("--name", default="", help="only cases of files and signals with this in their name")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="at-home-") as folder:
        base = Path(folder, "base")
        made = run(base, "--max-rounds", str(BASE_ROUNDS))
        if made.returncode:
            sys.exit(f"the first home cannot be made: {made.stdout}")
        kinds = {"file": file_cases, "signal": signal_cases, "disk": disk_cases}
        chosen = [name for name in kinds if options.only in (None, name)]
        found = []
        for kind in chosen:
            for case in kinds[kind](base, Path(folder), options.some, options.name):
                found.append(case)
                end = f"{case.code:4} lost {case.lost}  {case.wrong or 'well'}"
                print(f"{case.kind:6} {case.name:44} {end}  {case.line[:100]}", flush=True)
    wrong = [case for case in found if case.wrong]
    print(f"{len(found)} cases, {len(wrong)} not as they should be")
    command.finish(options, {"cases": [asdict(case) for case in found], "wrong": len(wrong)})
    sys.exit(bool(wrong))


@dataclass(frozen=True)
class Ended:
    """How a node ended, and what it said."""

    returncode: int
    stdout: str


def run(home: Path, *flags: str) -> Ended:
    """A node to its end, in a process that is forked off when all modules are loaded: that saves seconds of each case.
    Raises TimeoutError."""
    import swarm_node.node.build  # noqa: F401

    sys.stdout.flush()
    with tempfile.TemporaryFile() as said:
        pid = os.fork()
        if not pid:
            atexit._clear()  # the folder of all cases is the parent's
            os.dup2(said.fileno(), 1)
            os.dup2(said.fileno(), 2)
            sys.argv = ["swarm-node", "run", "--home", str(home), *FLAGS, *flags]
            try:
                cli.main()
            except SystemExit as ended:
                os._exit(int(ended.code or 0))
            except BaseException:  # noqa: BLE001 - the child must not go on as the parent
                traceback.print_exc()
            os._exit(1)
        status = _waited(pid)
        said.seek(0)
        return Ended(os.waitstatus_to_exitcode(status), said.read().decode(errors="replace"))


def _waited(pid: int) -> int:
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError


def copy(base: Path, home: Path) -> None:
    """All but the socket that the first node was asked by."""
    shutil.copytree(base, home, ignore=shutil.ignore_patterns("*.sock"))


def file_cases(base: Path, folder: Path, some: int, named: str) -> Iterator[Case]:
    """Each damage done to the newest checkpoint, or to another file, in a copy of the home."""
    for number, (name, damage) in enumerate(damages()):
        if number % some or named not in name:
            continue
        home = folder / "home"
        shutil.rmtree(home, ignore_errors=True)
        copy(base, home)
        damage(home)
        try:
            ended = run(home, "--max-rounds", str(BASE_ROUNDS + 1))
        except TimeoutError:
            yield Case("file", name, 0, "", 0, "it hangs")
            continue
        said = ended.stdout.strip().splitlines() or [""]
        wrong = _wrong(ended.returncode, ended.stdout, (0, 2))
        if not wrong and ended.returncode == 0 and rounds_kept(home) != BASE_ROUNDS + 1:
            wrong = "it went on and kept nothing"
        yield Case("file", name, ended.returncode, said[-1][:160], 0, wrong)


def damages() -> list[tuple[str, Callable[[Path], object]]]:
    """What may befall a file. Of the newest checkpoint first, then of the rest of the home."""
    newest = f"checkpoints/{BASE_ROUNDS:08d}"
    found: list[tuple[str, Callable[[Path], object]]] = []
    names = ("model.safetensors", "optimizer.safetensors", "state.json", "config.json", "tokenizer.json")
    for path in [f"{newest}/{name}" for name in names]:
        found += [(f"{Path(path).name} {how}", _applied(path, do)) for how, do in ANY.items()]
    for path in ("events.jsonl", "peers.json", "exchange.json", "manifest.json", "traffic.json", "tried.json"):
        found += [(f"{path} {how}", _applied(path, ANY[how])) for how in ("empty", "a pipe", "a folder", "noise")]
    found += [(f"state.json: {text[:30]}", _applied(f"{newest}/state.json", _written(text))) for text in STATES]
    found += [(f"optimiser: {how}", _applied(f"{newest}/optimizer.safetensors", do)) for how, do in TENSORS.items()]
    found += [(f"weights: {how}", _applied(f"{newest}/model.safetensors", do)) for how, do in TENSORS.items()]
    both = [f"checkpoints/{number:08d}/state.json" for number in (BASE_ROUNDS - 1, BASE_ROUNDS)]
    found.append(("both checkpoints cut off", lambda home: [ANY["half"](home / path) for path in both]))
    found.append(("identity.key noise", _applied("identity.key", ANY["noise"])))
    found.append(("identity.key a pipe", _applied("identity.key", ANY["a pipe"])))
    found.append(("chat template loops", _applied(f"{newest}/chat_template.jinja", _written(LOOPING))))
    return found


def _applied(path: str, do: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda home: do(home / path)


def _written(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


def _pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


ANY: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "noise": lambda path: path.write_bytes(os.urandom(2000)),
    "a flipped byte": _flip,
    "a pipe": _pipe,
    "a folder": _folder,
}
STATES = (
    "[]",
    "null",
    '{"format": 1}',
    '{"format": 1, "rounds": "many", "optimizer_steps": 1, "extra": {}}',
    '{"format": 1, "rounds": -1, "optimizer_steps": 1, "extra": {}}',
    '{"format": 1, "rounds": 3, "optimizer_steps": 1, "version": 3, "extra": {"model": 7}}',
    '{"format": 1, "rounds": ' + "9" * 5000 + ', "optimizer_steps": 1, "extra": {}}',
    "[" * 100_000,
)
LOOPING = "{% for a in range(99999) %}" * 3 + "x" + "{% endfor %}" * 3


def _tensors(change: Callable[..., object]) -> Callable[[Path], object]:
    def do(path: Path) -> None:
        from safetensors.torch import load_file, save_file

        tensors = load_file(path)
        change(tensors)
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})

    return do


def _first(tensors: "dict[str, object]") -> str:
    return next(name for name in tensors if not name.endswith("step"))


def _set(tensors: "dict[str, object]", make: Callable[..., object]) -> None:
    name = _first(tensors)
    tensors[name] = make(tensors[name])


TENSORS: dict[str, Callable[[Path], object]] = {
    "NaN": _tensors(lambda tensors: _set(tensors, lambda tensor: tensor * float("nan"))),
    "infinite": _tensors(lambda tensors: _set(tensors, lambda tensor: tensor + float("inf"))),
    "smaller": _tensors(lambda tensors: _set(tensors, lambda tensor: tensor[:1].clone())),
    "larger": _tensors(lambda tensors: _set(tensors, lambda tensor: tensor.repeat(2, *[1] * (tensor.dim() - 1)))),
    "another name": _tensors(lambda tensors: tensors.update({"999.exp_avg": tensors.pop(_first(tensors))})),
}


def signal_cases(base: Path, folder: Path, some: int, named: str) -> Iterator[Case]:
    """Each signal at so many moments: before the first line, while it loads, and between and in rounds."""
    for name, codes in SIGNALS.items():
        if named not in name:
            continue
        for moment in range(0, MOMENTS, some):
            home = folder / "home"
            shutil.rmtree(home, ignore_errors=True)
            copy(base, home)
            yield _signalled(home, name, moment, codes)


def _signalled(home: Path, name: str, moment: int, codes: Sequence[int]) -> Case:
    """Moments 0 to 5 are tenths and seconds after the start, 6 to 11 after a round has ended."""
    line = [sys.executable, "-m", "swarm_node", "run", "--home", str(home), *FLAGS[:-1], "1000"]
    node = subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # which nohup may have ignored
    )
    assert node.stdout is not None
    said: list[str] = []
    if moment < 6:
        time.sleep((0.3, 0.6, 1.0, 1.5, 2.5, 5.0)[moment])
    else:
        for text in node.stdout:
            said.append(text)
            if text.startswith("round"):
                break
        time.sleep(0.04 * (moment - 6))
    os.killpg(node.pid, getattr(signal, name))
    try:
        rest, _ = node.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        node.kill()
        return Case("signal", f"{name} at {moment}", 0, "", 0, "it does not leave")
    said.append(rest)
    output = "".join(said)
    done = max((int(text.split()[1]) + 1 for text in output.splitlines() if text.startswith("round")), default=0)
    lost = max(0, done - rounds_kept(home)) if done else 0
    wrong = _wrong(node.returncode, output, codes)
    if not wrong and lost and name != "SIGKILL":
        wrong = f"{lost} rounds are lost"
    last = (output.strip().splitlines() or [""])[-1]
    return Case("signal", f"{name} at {moment}", node.returncode, last[:160], lost, wrong)


def disk_cases(base: Path, folder: Path, some: int, named: str) -> Iterator[Case]:
    """A file system with so little room left, from none to enough for all that is written."""
    del named
    for kilobytes in rooms(base)[::some]:
        with small_disk(base, folder / "disk", kilobytes) as home:
            if home is None:
                print("no rights to mount a file system: full disks are left out")
                return
            ended = run(home, "--max-rounds", str(BASE_ROUNDS + 2))
            said = ended.stdout.strip().splitlines() or [""]
            wrong = _wrong(ended.returncode, ended.stdout, (0, 2))
            kept = rounds_kept(home)
            if not wrong and kept < BASE_ROUNDS:
                wrong = "the checkpoint before is gone"
            if not wrong and ended.returncode == 0 and kept != BASE_ROUNDS + 2:
                wrong = "it left with 0 and without its last checkpoint"
            yield Case("disk", f"{kilobytes} kB free", ended.returncode, said[-1][:160], 0, wrong)


def rooms(base: Path) -> list[int]:
    """Kilobytes free with which the disk is full at a write: at the first page and in the middle of each file of a
    checkpoint."""
    newest = max((base / "checkpoints").glob("[0-9]*"))
    found, before = {*KILOBYTES}, 0
    for path in sorted(newest.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        size = path.stat().st_size // 1024
        found |= {before, before + size // 2}
        before += (size // 4 + 1) * 4  # whole pages
    return sorted(found)


@contextmanager
def small_disk(base: Path, place: Path, kilobytes: int) -> Iterator[Path | None]:
    """A copy of the home on a file system that has so much room beside it."""
    place.mkdir(exist_ok=True)
    size = sum(path.stat().st_blocks // 2 + 4 for path in base.rglob("*")) + kilobytes + 64
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}k,mode=700", "none", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield None
        return
    try:
        home = place / "home"
        copy(base, home)
        spare = shutil.disk_usage(place).free - kilobytes * 1024
        if spare > 0:
            (place / "ballast").write_bytes(bytes(spare))
        yield home
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)


def rounds_kept(home: Path) -> int:
    """Of the newest checkpoint that is whole."""
    found = [path for path in (home / "checkpoints").glob("[0-9]*") if (path / "state.json").is_file()]
    return json.loads((max(found) / "state.json").read_text())["rounds"] if found else 0


def _wrong(code: int, output: str, codes: Sequence[int]) -> str:
    if "Traceback" in output:
        return "a traceback"
    return "" if code in codes else f"it ended with {code}, allowed is {codes}"


if __name__ == "__main__":
    main()
