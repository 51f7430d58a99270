"""The tokenizers of the starters: a small BPE and plain characters, with the same special tokens
and chat template.
"""

from collections.abc import Iterable
from pathlib import Path
from random import Random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lab.starters.questions import TASKS, TRAINING_SEED, Questions

CONTEXT = 512  # tokens
_SPECIALS = ("<pad>", "<bos>", "<sep>", "<eos>")
_BPE_TOKENS = 600  # at most: the tasks have so few words that merging ends earlier, at about 500
_TEXTS_PER_TASK = 400

# One user turn gives exactly <bos>question<sep>; what follows <sep> is the answer, ended by <eos>.
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}{{ sep_token + message['content'] + eos_token }}{% "
    "endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ sep_token }}{% endif %}"
)


def bpe(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Byte-level merges learnt from these texts. Each digit stays a token, so numbers keep their
    places.
    """
    core = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=_BPE_TOKENS,
        special_tokens=list(_SPECIALS),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    core.decoder = decoders.ByteLevel()
    return _finished(core)


def characters() -> PreTrainedTokenizerFast:
    """One token per character: printable ASCII, the line end and the sign of multiplication; others
    as UTF-8 bytes.
    """
    known = [*map(chr, range(ord(" "), ord("~") + 1)), "\n", "×"]
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    vocabulary = {token: number for number, token in enumerate([*_SPECIALS, *known, *byte_tokens])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[], byte_fallback=True))
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    return _finished(core)


def task_text() -> list[str]:
    """Questions of every task, for the tokenizer to learn from."""
    questions, random = Questions(TRAINING_SEED), Random("tokenizer")
    return [
        questions.sample(task, random).question for task in TASKS for _ in range(_TEXTS_PER_TASK)
    ]


def _finished(core: Tokenizer) -> PreTrainedTokenizerFast:
    pad, bos, sep, eos = _SPECIALS
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=pad,
        bos_token=bos,
        sep_token=sep,
        eos_token=eos,
        model_max_length=CONTEXT,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def save(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes the tokenizer, without the padding that measuring has set."""
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.save_pretrained(folder)
