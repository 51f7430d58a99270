"""The process that tries a tokenizer on a text: tokenizers.py says why, and starts it.

It runs Python with the Rust library of tokenizers alone, without torch. It tokenizes or joins the
same text that the node is about to, and says how long that took. If this takes too long, or too
much memory, the process ends, and the node skips the text.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import tokenizers

from swarm_node.policy.confined import answer, confined

LIFE_SECONDS = 3600  # of CPU time; the node bounds each text
MEMORY = 1536 * 1024 * 1024  # bytes of address space; a vocabulary of 260,000 tokens takes 0.4 GB
# CPU seconds for a text, and for each of its characters or ids: far above what honest ones take
ALLOWED, ALLOWED_EACH = 0.1, 5e-5
# Ids, or characters, that may become of a text, and of each of its characters or ids
MADE, MADE_EACH = 4096, 64


class TooMuch(Exception):
    """A text takes too much; the message says what."""


def _encoded(tokenizer: tokenizers.Tokenizer, asked: dict[str, Any]) -> None:
    tokenizer.encode_special_tokens = bool(asked["split"])
    text = asked["text"]
    made = in_time(len(text), "characters", partial(_ids, tokenizer, text, asked["special"]))
    if made > MADE + MADE_EACH * len(text):
        raise TooMuch(f"makes {made:,} tokens of {len(text):,} characters")


def _ids(tokenizer: tokenizers.Tokenizer, text: str, special: bool) -> int:
    return len(tokenizer.encode(text, add_special_tokens=bool(special)).ids)


def _decoded(tokenizer: tokenizers.Tokenizer, asked: dict[str, Any]) -> None:
    for ids in asked["ids"]:
        made = in_time(len(ids), "tokens", partial(_written, tokenizer, ids))
        if made > MADE + 64 * MADE_EACH * len(ids):
            raise TooMuch(f"makes {made:,} characters of {len(ids):,} tokens")


def _written(tokenizer: tokenizers.Tokenizer, ids: list[int]) -> int:
    return len(tokenizer.decode(ids))


def in_time(
    size: int, unit: str, compute: Callable[[], int], seconds_each: float = ALLOWED_EACH
) -> int:
    """What it computes. Raises TooMuch where it takes too long twice: what is computed for the
    first time may wait for memory.
    """
    for _ in range(2):
        began = time.process_time()
        made = compute()
        took = time.process_time() - began
        if took <= ALLOWED + seconds_each * size:
            return made
    raise TooMuch(f"takes {took:.1f} s for {size:,} {unit}")


def serve(parent: int, connection: int) -> None:
    """Reads a tokenizer in parts, then texts and ids, until its parent closes the connection."""
    reader = confined(parent, connection, MEMORY, LIFE_SECONDS)
    parts = list[str]()
    while part := reader.read():
        parts.append(str(part))
    try:
        tokenizer: tokenizers.Tokenizer | None = tokenizers.Tokenizer.from_str("".join(parts))
    except MemoryError:
        os._exit(1)
    except BaseException:  # noqa: BLE001  (panics of Rust are no Exception; its library says so)
        tokenizer = None
    while (asked := reader.read()) is not None:
        said = ""
        try:
            if tokenizer and "text" in asked:
                _encoded(tokenizer, asked)
            if tokenizer and "ids" in asked:
                _decoded(tokenizer, asked)
        except TooMuch as error:
            said = str(error)
        except MemoryError:
            os._exit(1)  # nothing can be relied on any more
        except BaseException:  # noqa: BLE001  (as above)
            said = ""  # the node meets it, too, and says so
        answer({"said": said, "cpu": time.process_time()})


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
