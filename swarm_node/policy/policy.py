"""A causal language model with its tokenizer: token ids of text, and logits and log-probs of
tokens.

It can be any Hugging Face causal LM. `loading.py` makes a policy.
"""

import mmap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property, partial
from inspect import getfile, signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers.utils import logging

from swarm_node.common.errors import UserError, first_line
from swarm_node.common.terminal import native_kept
from swarm_node.policy import named, tokenizer_trial, tree_attention
from swarm_node.policy.batch import Batch, TokenGroup, build_rows, build_tree, unrecorded
from swarm_node.policy.device import attempt, probed
from swarm_node.policy.llama.four_bits import is_four_bits
from swarm_node.policy.llama.llama_training import LlamaTraining
from swarm_node.policy.log_probs import is_large, log_distribution, projected_log_probs
from swarm_node.policy.precision import PLAIN, Precision
from swarm_node.policy.recompute import Around, checkpointing
from swarm_node.policy.residual import keep_in_float32
from swarm_node.policy.soundness import (
    Damaged,
    Endless,
    around_turns,
    check_template,
    is_panic,
    rendered,
)
from swarm_node.policy.tokenizer_trial import TooSlow
from swarm_node.policy.tried import Tried, folder_digest, subject
from swarm_node.rollouts.transcript import results

NO_LIMIT = 2**31  # context of models without positions
# Largest difference of logits, as a share of the largest: rounding gives 1e-6, bfloat16 0.03, FP8
# 0.15, errors above 1.
FINE, COARSE, QUANTISED = 1e-3, 0.1, 0.4
SAID = "forty-two"  # an answer that no chat template changes
SMALL_VOCABULARY = 2**11  # with fewer tokens the logits of a micro-batch are not worth a trial


class Packing(Enum):
    """Ways to attend over a tree of sequences, best first. The value names the way for the user."""

    NATIVE = "packed, native forward"
    BLOCKS = "packed, tree attention"


@dataclass(frozen=True, slots=True)
class Frame:
    """The text around a prompt, and the end that this node puts behind an external completion that
    ended.
    """

    system: str = ""  # what the model is told before each prompt
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of the chat template
    stop: str = ""  # the string that ends this node's own completions; "" for EOS
    # A prompt is a turn of a chat, for a model with a chat template; else text to continue
    chat: bool = True


@dataclass
class Policy:
    """The trained model. `model` maps ids to logits; everything else here is about text."""

    model: Any  # transformers.PreTrainedModel or a peft wrapper of one
    tokenizer: Any  # transformers.PreTrainedTokenizerBase
    device: torch.device
    # Of matrix products; None computes in the weights' own type
    autocast_dtype: torch.dtype | None = None
    name: str = ""
    precision: Precision = PLAIN  # of the linear layers of `model`
    commit: str = ""  # of the hub model that was loaded; "" for a folder
    checkpointing: bool = False  # blocks are computed again in the backward pass instead of kept
    # Memory is short: adapters are trained a few tokens at a time, and freed memory is given back
    frugal: bool = False
    # Memory is plentiful: what the decoder has for itself stays there while the policy trains
    keeps_decoder: bool = False
    # Of prompts and completions, decoded at the same time; 0 for all of a round
    concurrent_tokens: int = 0
    base: mmap.mmap | None = None  # where a frozen base is mapped from a file
    frame: Frame = Frame()
    version: int = 0  # updates of the weights since they were first loaded, over all resumes
    tried: Tried = field(default_factory=Tried)  # what works for this model here
    eos_ids: frozenset[int] = field(init=False)
    eos_id: int | None = field(init=False)  # the one that ends a text
    turn_end: int | None = field(init=False)  # the one that ends a turn of a chat
    pad_id: int = field(init=False)
    context_length: int = field(init=False)  # tokens, prompt and completion together

    def __post_init__(self) -> None:
        # Dropout would make recorded and recomputed log-probs disagree; gradients flow all the same
        self.model.eval()
        keep_in_float32(self.model, self.autocast_dtype)
        self.eos_ids = _eos_ids(self.model, self.tokenizer)
        eos, pad = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        self.eos_id = eos if eos is not None else min(self.eos_ids, default=None)
        self.turn_end = turn_end(self.tokenizer, self.eos_ids, self.eos_id)
        self.pad_id = pad if pad is not None else min(self.eos_ids, default=0)
        self.context_length = (
            getattr(self.model.config, "max_position_embeddings", None) or NO_LIMIT
        )

    def take(self, frame: Frame) -> None:
        """Puts this frame around prompts from now on. UserError if the model's chat template does
        not accept it.
        """
        try:
            check_template(self.tokenizer, frame.system, frame.arguments)
        except Damaged as error:
            raise UserError(
                "the chat template of this model refuses environment.system or "
                f"model.template_arguments: {error}; remove the one that it refuses"
            ) from error
        self.frame = frame
        self.__dict__.pop("_around", None)

    def encode_prompt(self, text: str) -> list[int]:
        """Ids up to where the completion starts: through the chat template where the tokenizer has
        one. None where the template or the tokenizer fails at this text. UserError where the
        template does not end.
        """
        system, arguments = self.frame.system, self.frame.arguments
        if not self.tokenizer.chat_template or not self.frame.chat:
            ids = self._ids(f"{system}\n\n{text}" if system else text) or []
            # Some tokenizers end every text, and a model would have nothing to say behind an end
            while len(ids) > 1 and ids[-1] in self.eos_ids:
                ids.pop()
            return ids
        turns = [{"role": "system", "content": system}] if system else []
        turns.append({"role": "user", "content": text})
        try:
            whole = rendered(self.tokenizer, turns, add_generation_prompt=True, **arguments)
        except Endless as error:
            raise UserError(f"model {self.name!r} cannot be given a prompt: {error}") from error
        except Damaged as error:
            self._left_out(text, str(error))
            return []
        return self._ids(whole, add_special_tokens=False) or []

    def encode_completion(self, text: str, *, ended: bool) -> list[int]:
        """Ids of a peer's completion. Text that spells a special token stays text. A completion
        that ended gets this node's own end: the string that ends its own completions, tokenized
        together with the text, or an end token. No ids where the tokenizer fails at this text.
        """
        whole = text + self.frame.stop if ended else text
        ids = self._ids(whole, add_special_tokens=False, split_special_tokens=True)
        if ids is None:
            return []
        end = self.turn_end if self.frame.chat else self.eos_id
        return [*ids, end] if ended and not self.frame.stop and end is not None else ids

    def _ids(self, text: str, **options: bool) -> list[int] | None:
        """Ids of this text; None where the tokenizer fails at it. It comes with the model and may
        fail at any text, that of a peer included.
        """
        try:
            tokenizer_trial.encode(self.tokenizer, text, **options)
            with native_kept(f"the tokenizer of {self.name}"):
                return list(self.tokenizer(text, **options).input_ids)
        except TooSlow as error:
            self._left_out(text, f"its tokenizer {error}")
            return None
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            self._left_out(text, f"its tokenizer fails: {first_line(error, 100)}")
            return None

    def _left_out(self, text: str, why: str) -> None:
        """Says, once, that texts are skipped at which the model's own files fail."""
        if not self.__dict__.setdefault("_told", False):
            self.__dict__["_told"] = True
            named.say(
                f"model {self.name!r} cannot take a text of {len(text)} characters: {why}; such "
                "texts are skipped"
            )

    def encode_observations(self, observations: Sequence[str], last: int) -> list[int]:
        """Ids of what an environment says to a turn, up to where the next turn starts. `last`: the
        id before them. A turn that ends with an end token does not get a second one.
        """
        said = results(observations) if self._around is None else "\n".join(observations)
        ids = self._ids(said, add_special_tokens=False, split_special_tokens=True) or []
        before, behind = self._around or ([], [])
        ended = last in self.eos_ids and before and before[0] in self.eos_ids
        return [*(before[1:] if ended else before), *ids, *behind]

    @cached_property
    def _around(self) -> tuple[list[int], list[int]] | None:
        """Ids around a user turn that follows an answer; None where episodes have the plain
        form.
        """
        if not self.tokenizer.chat_template or not self.frame.chat:
            return None
        found = around_turns(self.tokenizer, self.frame.system, self.frame.arguments)
        before, behind = (
            self._ids(part, add_special_tokens=False) or [] for part in found or ("", "")
        )
        return (before, behind) if found else None

    def decode(self, completions: list[list[int]]) -> list[str]:
        """Texts of these token ids, special tokens left out. UserError where the tokenizer fails
        at them.
        """
        try:
            tokenizer_trial.decode(self.tokenizer, completions)
            with native_kept(f"the tokenizer of {self.name}"):
                texts = self.tokenizer.batch_decode(
                    completions, skip_special_tokens=True, clean_up_tokenization_spaces=False
                )
            return list(texts)
        except BaseException as error:
            if not isinstance(error, Exception) and not is_panic(error):
                raise
            raise UserError(
                f"the tokenizer of model {self.name!r} cannot write out what the model generates: "
                f"{first_line(error)}"
            ) from error

    def save(self, folder: Path, dtype: torch.dtype | None = None) -> None:
        """Writes the weights, in `dtype` if given, and the tokenizer, for `from_pretrained`. Raises
        OSError, or safetensors' own error, on a full disk.
        """
        cast = {} if dtype is None else {"state_dict": _cast(self.model, dtype)}
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # checkpoints come all the time, between lines of rounds
        try:
            self.model.save_pretrained(folder, **cast)
            self.tokenizer.save_pretrained(folder)
        finally:
            if shown:
                logging.enable_progress_bar()

    def forward(self, **inputs: Any) -> Any:
        """The model's own forward, its matrix products in `autocast_dtype`."""
        with self._autocast():
            return self.model(**inputs)

    def _autocast(self) -> torch.autocast:
        kind, wanted = self.device.type, self.autocast_dtype
        # No cast of a weight outlives its block then
        again = self.checkpointing and torch.is_grad_enabled()
        return torch.autocast(
            kind, wanted or torch.bfloat16, enabled=wanted is not None, cache_enabled=not again
        )

    def let_go(self) -> None:
        """Lets go of the pages of a mapped base, which has been copied. They come back when the
        base is read again.
        """
        if self.base is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.base.madvise(mmap.MADV_DONTNEED)

    def casts_held(self) -> AbstractContextManager[Any]:
        """Inside, autocast casts each weight once, not at each `forward`."""
        # Only the outermost drops casts
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=False)

    @property
    def arithmetic(self) -> str:
        """The type that the linear layers compute in, for people."""
        return self.precision.describe(
            str(self.autocast_dtype or self.model.dtype).removeprefix("torch.")
        )

    @contextmanager
    def generating(self) -> Iterator[None]:
        """Inside, the model computes as in generation. Training differs if only generation has its
        own precision.
        """
        alike = self.precision.in_training and self.packing is Packing.BLOCKS
        attention = (
            tree_attention.using(self.model, tree_attention.ALIKE) if alike else nullcontext()
        )
        with self.precision.active(True), attention:
            yield

    def exact(self) -> AbstractContextManager[None]:
        """Inside, the model computes with plain linear layers, for comparisons. A low precision can
        turn a tiny difference in the order of sums into a visible one.
        """
        return self.precision.active(False)

    def log_probs(
        self, batch: Batch, temperature: float, *, entropy: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Log-prob [T] of each of `batch.target_T`, and the sum of the entropies, which has no
        gradient (0 unless asked for). A large [T, V] is never held.
        """
        head, source_T, target_T = self._head, batch.source_T, batch.target_T
        way = self.packing  # tried, if it has to be, before autocast keeps casts of weights
        frozen = head is not None and not head.weight.requires_grad
        # The head of the model itself would round logits to the type of autocast
        rounds = self.autocast_dtype is not None
        if head is not None and (
            rounds
            or is_large(len(batch.columns_U), head.out_features, head.in_features, frozen=frozen)
        ):
            with self._autocast():
                hidden_TD = self._computed(batch, way, self.causal.base_model)[source_T]
                log_probs_T, entropies_T = projected_log_probs(
                    hidden_TD, head, target_T, temperature
                )
            return log_probs_T, entropies_T.sum()
        distribution_UV = log_distribution(self._computed(batch, way, self.model), temperature)
        total = torch.zeros((), device=self.device)
        if entropy:
            with torch.no_grad():
                total = (
                    -torch.special.xlogy(p_UV := distribution_UV.exp(), p_UV).sum(1)[source_T].sum()
                )
        return distribution_UV[source_T, target_T], total

    def backward(self, loss: Tensor, batch: Batch) -> None:
        """Backward pass from a loss of `log_probs`: blocks that are computed again attend as in the
        forward pass.
        """
        again = self.checkpointing and batch.tree is not None and self.packing is not Packing.NATIVE
        with tree_attention.using(self.model, tree_attention.BLOCKS) if again else nullcontext():
            loss.backward()  # type: ignore[no-untyped-call]

    def logits(self, batch: Batch) -> Tensor:
        """Logits [T, V] that predict `batch.target_T`."""
        return self._computed(batch, self.packing, self.model)[batch.source_T]

    def _computed(self, batch: Batch, way: Packing | None, module: Any) -> Tensor:
        """The output [U, V or D] of `module`: logits for the model, hidden states for its body."""
        if way is Packing.NATIVE and batch.tree is not None:
            native = self._native_forward
            return (native.logits if module is self.model else native.hidden)(
                batch, self.checkpointing
            )
        inputs: dict[str, Any] = {
            "input_ids": batch.ids_RL,
            "position_ids": batch.positions_RL,
            "use_cache": False,
        }
        if batch.tree is None:
            wanted: dict[str, Any] = {"logits_to_keep": batch.keep} if module is self.model else {}
            with self._recomputing(), self._autocast():
                output = module(attention_mask=batch.mask, **inputs, **wanted)
            kept = _put_out(output)[:, -batch.keep :]  # some models ignore logits_to_keep
            return kept.reshape(-1, kept.shape[-1])[batch.columns_U]
        chosen = (
            {"logits_to_keep": batch.columns_U}
            if module is self.model and self._selects_logits
            else {}
        )
        with (
            tree_attention.attending(self.model, batch.tree),
            self._recomputing(partial(tree_attention.within, batch.tree)),
            self._autocast(),
        ):
            found = _put_out(module(attention_mask=None, **inputs, **chosen))[0]
        return found if chosen else found[batch.columns_U]

    def _recomputing(self, around: Around = nullcontext) -> AbstractContextManager[Any]:
        return (
            checkpointing(self.model, around)
            if self.checkpointing and torch.is_grad_enabled()
            else nullcontext()
        )

    @cached_property
    def four_bits(self) -> bool:
        """Whether the frozen base has linear layers in 4 bits."""
        return any(map(is_four_bits, self.model.modules()))

    @property
    def has_adapters(self) -> bool:
        """Whether LoRA adapters are trained, and not all weights."""
        return hasattr(self.model, "disable_adapter")  # a PeftModel

    @property
    def causal(self) -> Any:
        """The model under its adapters."""
        return self.model.get_base_model() if self.has_adapters else self.model

    def without_adapters(self) -> AbstractContextManager[None]:
        """Inside, the model computes as if it had no adapters."""
        return self.model.disable_adapter() if self.has_adapters else nullcontext()

    @cached_property
    def _head(self) -> nn.Linear | None:
        """The output head, if only a plain linear layer follows the hidden states, found by trying;
        else None.
        """
        head = self.causal.get_output_embeddings()
        if type(head) is not nn.Linear:
            return None
        if head.out_features < SMALL_VOCABULARY and self.autocast_dtype is None:
            return None
        ids = torch.tensor(
            [[(7 * i + 3) % head.out_features for i in range(11)]], device=self.device
        )

        def project() -> tuple[Tensor, Tensor]:
            with torch.no_grad(), self.exact(), self._autocast():
                return head(self.causal.base_model(input_ids=ids).last_hidden_state), self.model(
                    input_ids=ids
                ).logits

        def plain() -> bool | None:
            found = probed(project, "in trying the output head")
            return None if found is None else agreement(*found, rounding(found[1].dtype))

        return head if self.works("output head", plain) else None

    @cached_property
    def _native_forward(self) -> LlamaTraining:
        if self.autocast_dtype is not None:
            raise TypeError("the native forward computes in float32 only")
        return LlamaTraining(self.causal)

    @cached_property
    def _selects_logits(self) -> bool:
        return "logits_to_keep" in signature(self.causal.forward).parameters

    @cached_property
    def packing(self) -> Packing | None:
        """The best way for this model to train on a tree, found by trying, not by its name; None if
        there is none.

        A way is taken if a tree gives the logits that padded rows give. It is for sequences within
        `reach`.
        """
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        prompt = [(7 * i + 3) % vocabulary for i in range(11)]
        completions = [[(5 * i + k) % vocabulary for i in range(1, 5 + k)] for k in (1, 2, 3)]
        # Begins as another; the second prompt begins as the first
        longer = [*completions[1], *completions[2]]
        packed = [
            unrecorded(prompt, [*completions, longer]),
            unrecorded([*prompt[:6], *prompt[1:]], completions[:2]),
        ]

        @cache
        def reference() -> Tensor:
            batch = build_rows(packed, self.device)
            return attempt(
                lambda: self._computed(batch, None, self.model)[batch.source_T],
                "in trying packed rows",
            )

        with torch.no_grad(), self.exact():
            agrees = (partial(self._agrees, way, packed, reference) for way in Packing)
            tried = zip(Packing, agrees, strict=True)
            return next(
                (way for way, agree in tried if self.works(f"rows: {way.value}", agree)), None
            )

    def works(self, name: str, trial: Callable[[], bool | None]) -> bool:
        """Whether something works for this model here: found out once, by `trial`. See
        `Tried.ask`.
        """
        return self.tried.ask(self._subject, name, trial)

    @cached_property
    def _subject(self) -> str:
        precision = [
            self.precision.describe(""),
            folder_digest(Path(getfile(type(self.precision))).parent),
        ]
        facts = {"name": self.name, "products": str(self.autocast_dtype), "precision": precision}
        return subject(facts, self.model, self.device)

    def _agrees(
        self, way: Packing, packed: list[TokenGroup], reference: Callable[[], Tensor]
    ) -> bool | None:
        def attended() -> Tensor:
            batch = build_tree(packed, self.device, 1)
            return self._computed(batch, way, self.model)[batch.source_T]

        # A model may refuse; padded rows always work
        ours = probed(attended, "in trying packed rows")
        if ours is None:
            return None
        wanted = reference()
        return agreement(ours, wanted, rounding(wanted.dtype))

    @property
    def reach(self) -> int:
        """Tokens of the longest sequence that all layers attend over: a tree's mask would replace
        that of a window.
        """
        names = ("sliding_window", "window_size", "attention_chunk_size")
        reaches = (getattr(self.model.config, name, None) for name in names)
        return min(
            self.context_length, *(reach for reach in reaches if isinstance(reach, int)), NO_LIMIT
        )


def rounding(dtype: torch.dtype) -> float:
    """The largest difference allowed between logits of this type, as a share of the largest."""
    return FINE if dtype == torch.float32 else COARSE


def agreement(ours: Tensor, reference: Tensor, tolerance: float) -> bool:
    """Whether two ways to compute the same logits differ by rounding only. The difference is
    measured as a share of the largest logit: the logits of a fresh model are so small that any two
    ways would seem to agree until training tells them apart.
    """
    return bool(
        (ours.float() - reference.float()).abs().max() <= tolerance * float(reference.abs().max())
    )


def turn_end(tokenizer: Any, eos_ids: Collection[int], otherwise: int | None) -> int | None:
    """The end token that the chat template puts behind an answer, with which a chat model ends its
    turn; `otherwise` if no template shows one. Gemma, Phi and Llama 3 have several, and EOS may be
    another.
    """
    if not tokenizer.chat_template:
        return otherwise
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": SAID}]
    try:
        behind = rendered(tokenizer, chat).rpartition(SAID)[2]
    except Damaged:  # a template that takes no answers
        return otherwise
    return next(
        (i for i in _ids_behind(tokenizer, behind) if i in eos_ids),
        otherwise,
    )


def _ids_behind(tokenizer: Any, text: str) -> list[int]:
    """Ids of a text of the template; none where the tokenizer fails at it."""
    try:
        tokenizer_trial.encode(tokenizer, text, add_special_tokens=False)
        with native_kept("the tokenizer"):
            return list(tokenizer(text, add_special_tokens=False).input_ids)
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return []


def _cast(model: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """The model's weights in another type; tied weights stay tied."""
    made: dict[int, Tensor] = {}
    state = model.state_dict(keep_vars=True)
    return {
        name: made.setdefault(id(value), value.detach().to(dtype)) for name, value in state.items()
    }


def _put_out(output: Any) -> Tensor:
    """The logits of a model's output, or the hidden states of its body's, [rows, columns, ...]."""
    put_out: Tensor = output.logits if "logits" in output else output.last_hidden_state
    return put_out


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """All ids that end a completion: chat models often have several."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ids = set(named) if isinstance(named, list) else {named}
    return frozenset(i for i in ids | {tokenizer.eos_token_id} if i is not None)
