"""Whether a tokenizer takes its time, asked before the node lets it read a text.

A tokenizer comes with a model, and is a program: its normalizers may double a text forty times, its
regular expressions may try a million ways at each character, and its decoder in the same way. The
Rust code runs in this process, where nothing can end it but the end of the process.

Most tokenizers are made of parts whose time grows with the length of the text alone. `is_plain`
knows these parts by their kinds, and by their regular expressions, word for word; a tokenizer that
is made of them reads every text in this process at once. Any other tokenizer reads each text in a
confined child process first (tokenizer_child.py). This process lets it read the text only after the
child has finished in time. So a text takes twice as long, but that is a millisecond or less. A text
for which the child needs too long is skipped, as is a text at which the tokenizer fails. If it
needs too long for one of the texts that every model is tried with, the tokenizer is refused.

A tokenizer that is not a tokenizer.json is loaded by transformers out of files. If its class is in
Rust, it comes out as parts like those, and is judged in the same way. The load itself, which may be
as slow, and the texts of a class in Python are tried by another child, which reads the folder and
has no other rights either (folder_child.py).

A text gets two to three seconds of CPU time, and the child's memory. The child answers with the CPU
time that it has used, and its limit is raised by so much before the next text.
"""

import atexit
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from swarm_node.policy.confined_child import ConfinedChild, Ended, NotStarted
from swarm_node.policy.tokenizer_child import MEMORY

CHILD, FOLDER_CHILD = "swarm_node.policy.tokenizer_child", "swarm_node.policy.folder_child"
TEXT_SECONDS, LOAD_SECONDS = 2, 20  # of CPU time; a vocabulary of 260,000 tokens is read in 2
# Of a child that imports transformers first, which takes 4: it bounds the load by itself
FOLDER_SECONDS, FOLDER_WALL_SECONDS = 120, 600.0
MOST_REFUSED = 1000  # texts that are remembered, so that none takes its time twice
PART = 1 << 20  # characters of a tokenizer in a frame
# Texts that every tokenizer is tried with: one word, several, a long one, many kinds of characters
TRIED = (
    "?",
    "What? " * 200,
    "word " * 4000,
    "w" * 8000,
    "7" * 4000,
    " " * 4000,
    "".join(map(chr, range(32, 2048))),
    "\n\t x\u3000" * 800 + "\u4e2d\u6587\u1100\U0001f600" * 400,
)
MOST_STEPS, MOST_GROWTH, LONGEST_PART = 8, 64, 64
LOADED_FROM = "swarm_node_folder"  # attribute of a loaded tokenizer
LONGEST_WORD = 256  # characters, of which WordPiece tries all pieces
# Regular expressions of well-known tokenizers: none looks at a character more than a few times
KNOWN_REGEXES = {
    r"[\s\S]",
    r"\p{N}",
    r"\p{N}{1,3}",
    r"[\r\n]",
    r"\s?\p{L}+",
    r"\s?\p{P}+",
    r"[0-9]",
    # GPT-2
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # Llama 3
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    # Qwen 2
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
}
# Kinds of parts that write about as much as they read; the other kinds are looked at
NORMALIZERS = {
    *("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "BertNormalizer", "StripAccents"),
    *("Strip", "ByteLevel"),
}
PRE_TOKENIZERS = {
    *("ByteLevel", "Digits", "Metaspace", "Whitespace", "WhitespaceSplit", "BertPreTokenizer"),
    *("Punctuation", "UnicodeScripts", "CharDelimiterSplit"),
}
DECODERS = {"ByteLevel", "ByteFallback", "Fuse", "Metaspace", "WordPiece", "BPEDecoder"}
INNER = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}


class TooSlow(Exception):
    """A tokenizer takes too much time or memory, or fails; the message says at what."""


# Tokenizers that need no child


def is_plain(tokenizer: Mapping[str, Any]) -> bool:
    """Whether all parts of this tokenizer.json take a time that grows with the text alone."""
    try:
        return (
            all(_parts_are_plain(tokenizer.get(role), role) for role in INNER)
            and _ends_are_plain(tokenizer.get("post_processor"))
            and _model_is_plain(tokenizer["model"])
            and not tokenizer.get("truncation")
            and not tokenizer.get("padding")
        )
    except (KeyError, TypeError, AttributeError, ValueError):
        return False  # another form than the library writes


def _parts_are_plain(outer: Mapping[str, Any] | None, role: str) -> bool:
    if outer is None:
        return True
    steps = outer[INNER[role]] if outer["type"] == "Sequence" else [outer]
    if len(steps) > MOST_STEPS:
        return False
    growth = 1
    for step in steps:
        grows = _growth(step, role)
        if not grows:
            return False
        growth *= grows
    return growth <= MOST_GROWTH


def _growth(step: Mapping[str, Any], role: str) -> int:
    """How many characters this part may write for one that it reads; 0 where that, or its time, is
    not known.
    """
    kind = step["type"]
    if kind == "Prepend" and role == "normalizer":
        return int(len(step["prepend"]) <= LONGEST_PART)
    if kind == "Strip" and role == "decoder":
        return int(max(step["start"], step["stop"]) <= LONGEST_PART)
    if kind == "Replace" and role != "pre_tokenizer":
        replaced = step["pattern"].get("String")
        return -(-len(step["content"]) // len(replaced)) or 1 if replaced else 0
    if kind == "Split" and role == "pre_tokenizer":
        pattern = step["pattern"]
        return int(bool(pattern.get("String")) or pattern.get("Regex") in KNOWN_REGEXES)
    kinds = {"normalizer": NORMALIZERS, "pre_tokenizer": PRE_TOKENIZERS, "decoder": DECODERS}
    return int(kind in kinds[role])


def _ends_are_plain(outer: Mapping[str, Any] | None) -> bool:
    if outer is None:
        return True
    steps = outer["processors"] if outer["type"] == "Sequence" else [outer]
    kinds = {"TemplateProcessing", "ByteLevel", "BertProcessing", "RobertaProcessing"}
    return len(steps) <= MOST_STEPS and all(
        step["type"] in kinds and len(json.dumps(step)) <= 4096 for step in steps
    )


def _model_is_plain(model: Mapping[str, Any]) -> bool:
    kind = model["type"]
    if kind == "BPE":
        beside = [model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")]
        return not model.get("dropout") and all(len(text or "") <= LONGEST_PART for text in beside)
    if kind == "WordPiece":
        return int(model["max_input_chars_per_word"]) <= LONGEST_WORD
    if kind == "Unigram":
        return all(len(piece) <= LONGEST_WORD for piece, _ in model["vocab"])
    return bool(kind == "WordLevel")


# All other tokenizers


class Fails(TooSlow):
    """A tokenizer fails at a text in its child, and may not do so here; the message says how."""


class Trial:
    """A tokenizer in a confined child process, which reads each text first."""

    def __init__(self, tokenizer: str | Path) -> None:
        """`tokenizer`: the text of its tokenizer.json, or the folder that transformers loads."""
        if isinstance(tokenizer, Path):
            program = [str(tokenizer.absolute())]
            self._child = ConfinedChild(FOLDER_CHILD, program, FOLDER_WALL_SECONDS)
            self._load_seconds = FOLDER_SECONDS
        else:
            parts = [tokenizer[at : at + PART] for at in range(0, len(tokenizer), PART)]
            self._child = ConfinedChild(CHILD, [*parts, ""])
            self._load_seconds = LOAD_SECONDS
        self._size = 100  # tokens that it has at least
        self._used = 0.0  # seconds of CPU time
        self._alone = threading.Lock()
        self._refused = OrderedDict[bytes, TooSlow]()  # what took too much, by digest
        _trials.add(self)

    def close(self) -> None:
        """Ends the child."""
        with self._alone:
            self._child.close()

    def of_tried(self) -> None:
        """Tries the texts that every tokenizer is tried with. Raises TooSlow. Where it fails at one
        of them, such a text is skipped later.
        """
        self._ask({"what": "to be read"})
        for text in TRIED:
            with suppress(Fails):
                self.encode(text, special=True, split=False)
        with suppress(Fails):
            self.decode([list(range(min(100, self._size))) * 10])

    def encode(self, text: str, *, special: bool, split: bool) -> None:
        """Raises TooSlow where this text takes too much. `special`: with the tokens that a text
        gets; `split`: special tokens in it are text.
        """
        # The library cannot be given a lone surrogate, and says so at once
        text = text.encode("utf-8", "replace").decode()
        asked = {"text": text, "special": special, "split": split}
        self._ask({"what": f"for {len(text):,} characters", **asked})

    def decode(self, completions: Sequence[Sequence[int]]) -> None:
        """Raises TooSlow where writing out these ids takes too much."""
        asked = [list(map(int, ids)) for ids in completions]
        self._ask({"what": f"for {sum(map(len, asked)):,} tokens", "ids": asked})

    def _ask(self, asked: dict[str, Any]) -> None:
        what = asked.pop("what")
        digest = sha256(json.dumps(asked).encode()).digest()
        with self._alone:
            if refused := self._refused.get(digest):
                raise refused
            try:
                self._tried(asked, what)
            except TooSlow as error:
                self._refused[digest] = error
                if len(self._refused) > MOST_REFUSED:
                    self._refused.popitem(last=False)
                raise

    def _tried(self, asked: Mapping[str, Any], what: str) -> None:
        try:
            answer = self._answered(asked)
        except Ended:
            # For lack of time it gets no other try; its memory may have been short before
            if self._child.out_of_time:
                raise self._too_slow(what) from None
            try:
                answer = self._answered(asked)
            except Ended:
                raise self._too_slow(what) from None
        if said := answer.get("said"):
            raise TooSlow(str(said))
        if failed := answer.get("failed"):
            raise Fails(f"fails: {failed}")

    def _too_slow(self, what: str) -> TooSlow:
        return TooSlow(f"needs more than {TEXT_SECONDS} s or {MEMORY >> 20} MB {what}")

    def _answered(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The child's answer, from a new child if there is none. Raises Ended, TooSlow."""
        if not self._child.runs:
            try:
                self._child.start()
            except NotStarted as error:
                raise TooSlow(f"cannot be tried, {error}") from error
            loaded = self._child.ask_within(self._load_seconds, {})
            self._used = float(loaded["cpu"])
            if said := loaded.get("said"):
                self._child.close()
                raise TooSlow(str(said))
            self._size = int(loaded.get("size", self._size))
        answer = self._child.ask_within(int(self._used) + 1 + TEXT_SECONDS, asked)
        self._used = float(answer["cpu"])
        return answer


_trials: WeakSet[Trial] = WeakSet()
_of: WeakKeyDictionary[Any, Trial | None] = WeakKeyDictionary()
_choosing = threading.Lock()


def trial_of(tokenizer: Any) -> Trial | None:
    """The trial of a loaded tokenizer; None for a plain one."""
    with _choosing:
        if tokenizer not in _of:
            _of[tokenizer] = _made(tokenizer)
        return _of[tokenizer]


def _made(tokenizer: Any) -> Trial | None:
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    if not hasattr(backend, "to_str"):
        # A class in Python, with the folder that it came from
        folder = Path(str(getattr(tokenizer, LOADED_FROM, "")))
        return Trial(folder) if folder.is_absolute() and folder.is_dir() else None
    written = backend.to_str()
    return None if is_plain(json.loads(written)) else Trial(written)


def encode(
    tokenizer: Any,
    text: str,
    *,
    add_special_tokens: bool = True,
    split_special_tokens: bool = False,
) -> None:
    """Raises TooSlow where this tokenizer takes too much for this text, with these options of
    transformers.
    """
    if trial := trial_of(tokenizer):
        trial.encode(text, special=add_special_tokens, split=split_special_tokens)


def decode(tokenizer: Any, completions: Sequence[Sequence[int]]) -> None:
    """Raises TooSlow where this tokenizer takes too much to write out these ids."""
    if trial := trial_of(tokenizer):
        trial.decode(completions)


def check_file(content: bytes) -> None:
    """Tries the tokenizer of this tokenizer.json before any library loads it here. Raises
    TooSlow.
    """
    try:
        text = content.decode()
        if is_plain(json.loads(text)):
            return
    except (ValueError, RecursionError):
        return  # its library says so
    trial = Trial(text)
    try:
        trial.of_tried()
    finally:
        trial.close()


def check_folder(folder: Path) -> None:
    """Tries the tokenizer of this folder, which is not a tokenizer.json, before transformers loads
    it here. Raises TooSlow.
    """
    trial = Trial(folder)
    try:
        trial.of_tried()
    finally:
        trial.close()


@atexit.register
def close() -> None:
    """Ends all children. The next text starts one again."""
    for trial in list(_trials):
        trial.close()
