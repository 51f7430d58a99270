"""What a user sees of the download of a hub model: its size first, and bars at a terminal.

transformers fetches what is missing while it loads a model. Its own bars, of loading, would stay in
pipes and above the view. Turning them off turns off those of the hub's library, too.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch

from transformers.utils import logging

from swarm_node.common.terminal import progress_bars
from swarm_node.policy import named

SAID_FROM = 500_000_000  # bytes: a smaller download is over before the line is read
WEIGHTS = "model*.safetensors"  # as transformers names the files that it loads
SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"


def announce(name: str, revision: str) -> None:
    """Says how much the download of a hub model takes, if it is large and not in the cache. If the
    hub does not say, the download is left to say what is wrong.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache  # now: slow to import

    if any(
        isinstance(try_to_load_from_cache(name, file, revision=revision), str)
        for file in (SINGLE, INDEX)
    ):
        return
    try:
        about = HfApi().model_info(
            name, revision=revision, files_metadata=True, timeout=named.SECONDS
        )
    except Exception:  # noqa: BLE001  each library underneath raises types of its own
        return
    sizes = [file.size or 0 for file in about.siblings or () if fnmatch(file.rfilename, WEIGHTS)]
    if sum(sizes) > SAID_FROM:
        named.say(f"getting {name} from the hub: {sum(sizes) / 1e9:.1f} GB")


@contextmanager
def only_bars_of_downloads() -> Iterator[None]:
    """Inside, transformers draws no bars of loading; the hub's library draws those of downloads, on
    a terminal.
    """
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, enable_progress_bars

    shown = logging.is_progress_bar_enabled()
    downloads = not are_progress_bars_disabled() and sys.stderr.isatty()
    logging.disable_progress_bar()
    if downloads:
        enable_progress_bars()
    try:
        with progress_bars():
            yield
    finally:
        if shown:
            logging.enable_progress_bar()
