"""Whether a model of the Hugging Face hub can be had, found out in seconds. Loads neither torch nor the hub's library.

That library tries each file of a model for a minute where there is no connection, also where all files are here.
"""

import os
import threading
import urllib.error
import urllib.request
from functools import cache
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote

from swarm_node.common.errors import UserError

SECONDS = 3.0  # for an answer; resolving a name is bounded by it, too
FORBIDDEN = "HF_HUB_OFFLINE is set"
OFFLINE = {"1", "on", "yes", "true"}


def is_hub_name(name: str) -> bool:
    """Whether it does not look like a folder."""
    return not (name.startswith((".", "/", "~")) or name.count("/") > 1)


@cache
def only_here(name: str, revision: str = "") -> bool:
    """Whether to load this hub model from the cache alone, as the hub does not answer. UserError where it is not there.

    Where the hub answers, also that there is no such model, its library has the word.
    """
    problem = unreachable(name, revision)
    if problem and not _cached(name):
        raise UserError(
            f"model {name!r} cannot be had: {problem}, and it is not in the cache; get it where there is a connection "
            f"(hf download {name} --local-dir FOLDER) and give --model.name FOLDER, or a starter, such as rare"
        ) from (None if problem == FORBIDDEN else ConnectionError(problem))
    return bool(problem)


def unreachable(name: str, revision: str = "") -> str:
    """Why the hub is not to be asked for this model, or cannot be; "" where it can."""
    offline = os.environ.get("HF_HUB_OFFLINE", "").lower() in OFFLINE
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/{quote(name)}/resolve/{quote(revision or 'main', safe='')}/config.json"
    return FORBIDDEN if offline else _problem(url)


def commit_of(name: str, revision: str) -> str:
    """Of a model that was just loaded by this revision: where the library keeps it; "" where it does not say."""
    from huggingface_hub import try_to_load_from_cache  # now: where a model is loaded, it is there

    found = try_to_load_from_cache(name, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else ""


def _problem(url: str) -> str:
    """Why nobody answers there; "" where somebody does, whatever the answer."""
    host = url.split("/")[2].rpartition("@")[2]  # without user and password
    found = [f"{host} does not answer within {SECONDS:.0f} s"]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=SECONDS).close()  # noqa: S310
            found[0] = ""
        except urllib.error.HTTPError:
            found[0] = ""
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            found[0] = f"{host} cannot be reached ({getattr(reason, 'strerror', None) or reason})"

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(SECONDS)
    return found[0]


def _cached(name: str) -> bool:
    home = Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser()
    folder = Path(os.environ.get("HF_HUB_CACHE", home / "hub")).expanduser()
    return any((folder / f"models--{name.replace('/', '--')}" / "snapshots").glob("*/config.json"))
