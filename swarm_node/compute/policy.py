"""A causal language model with its tokenizer: what this node can say about text and tokens.

Any Hugging Face causal LM, by starter name, folder or hub name. Weights come from safetensors only and no code comes
with a model (`trust_remote_code` stays off), so a stranger's model folder can be wrong but not dangerous.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from protocol.messages import Completion
from swarm_node.algorithm import rows, tree
from swarm_node.common.errors import UserError
from swarm_node.compute import hub
from swarm_node.compute.fast_cpu.llama_training import LlamaTraining
from swarm_node.compute.precision import kernels
from swarm_node.compute.precision.linear import Fp8, swap_linears
from swarm_node.compute.training import soundness, tree_attention
from swarm_node.compute.training.soundness import Damaged
from swarm_node.settings import LoraConfig, ModelConfig

NO_LIMIT = 2**31  # context of models without positions
AGREEMENT = 1e-3  # largest difference of logits, of the largest one; rounding gives 1e-6 in float32, 1e-2 in bfloat16


class Packing(Enum):
    """Ways to attend over rows that hold a prompt once, best first. The value says it to the user."""

    FLEX = "packed, FlexAttention"
    NATIVE = "packed, native forward"
    BLOCKS = "packed, tree attention"
    MASK = "packed, 4-D mask"


@dataclass
class Policy:
    """The trained model. `model` maps ids to logits; everything else here is about text."""

    model: Any  # transformers.PreTrainedModel or a peft wrapper of one
    tokenizer: Any  # transformers.PreTrainedTokenizerBase
    device: torch.device
    autocast_dtype: torch.dtype | None = None  # of matrix products; None computes in the weights' own type
    name: str = ""
    fp8: Fp8 | None = None  # the layers of `model` that compute in FP8
    version: int = 0  # updates of the weights since they were first loaded, over all resumes
    eos_ids: frozenset[int] = field(init=False)
    eos_id: int | None = field(init=False)  # the one that is appended to external completions that ended
    pad_id: int = field(init=False)
    context_length: int = field(init=False)  # tokens, prompt and completion together

    def __post_init__(self) -> None:
        self.model.eval()  # dropout would make recorded and recomputed log-probs disagree; gradients flow all the same
        self.eos_ids = _eos_ids(self.model, self.tokenizer)
        eos, pad = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        self.eos_id = eos if eos is not None else min(self.eos_ids, default=None)
        self.pad_id = pad if pad is not None else min(self.eos_ids, default=0)
        self.context_length = getattr(self.model.config, "max_position_embeddings", None) or NO_LIMIT

    def encode_prompt(self, text: str) -> list[int]:
        """Ids up to where the completion starts: through the chat template where the tokenizer has one."""
        if self.tokenizer.chat_template:
            turn = [{"role": "user", "content": text}]
            return list(self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_dict=False))
        return list(self.tokenizer(text).input_ids)

    def encode_completion(self, completion: Completion) -> list[int]:
        """Ids of a peer's completion. Text that spells a special token stays text; EOS is what the flag says."""
        ids = self.tokenizer(completion.text, add_special_tokens=False, split_special_tokens=True).input_ids
        return [*ids, self.eos_id] if completion.ended and self.eos_id is not None else list(ids)

    def decode(self, completions: list[list[int]]) -> list[str]:
        """Texts of these token ids, special tokens left out."""
        texts = self.tokenizer.batch_decode(completions, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return list(texts)

    def save(self, folder: Path) -> None:
        """Weights and tokenizer, as `from_pretrained` opens them. OSError, or safetensors' own, on a full disk."""
        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()  # checkpoints come all the time, between lines of rounds
        try:
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        finally:
            if shown:
                logging.enable_progress_bar()

    def forward(self, **inputs: Any) -> Any:
        """The model's own forward, its matrix products in `autocast_dtype`."""
        with torch.autocast(
            self.device.type, dtype=self.autocast_dtype or torch.bfloat16, enabled=self.autocast_dtype is not None
        ):
            return self.model(**inputs)

    @property
    def arithmetic(self) -> str:
        """What the linear layers compute in, for people."""
        plain = str(self.autocast_dtype or self.model.dtype).removeprefix("torch.")
        if self.fp8 is None:
            return plain
        where = "in writing and training" if self.fp8.in_training else f"in writing, {plain} in training"
        return f"FP8 {where} ({self.fp8.kernel.name})"

    @contextmanager
    def generating(self) -> Iterator[None]:
        """The model computes as when it writes: in the mixed FP8 flow not as it trains, in the other just so."""
        if self.fp8 is None:
            yield
            return
        alike = self.fp8.in_training and self.packing in (Packing.FLEX, Packing.BLOCKS)
        attention = tree_attention.using(self.model, tree_attention.ALIKE) if alike else nullcontext()
        with self.fp8.active(True), attention:
            yield

    @contextmanager
    def exact(self) -> Iterator[None]:
        """FP8 off, for comparisons: where the order of sums differs, rounding to FP8 makes much of little."""
        if self.fp8 is None:
            yield
        else:
            with self.fp8.active(False):
                yield

    def logits(self, batch: rows.RowBatch | tree.TreeBatch) -> Tensor:
        """Logits [tokens, vocabulary] that predict `batch.target`."""
        if isinstance(batch, tree.TreeBatch):
            return self._tree_logits(batch, self.packing)
        output = self.forward(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            position_ids=batch.position_ids,
            use_cache=False,
            logits_to_keep=batch.logits_to_keep,
        ).logits
        kept: Tensor = output[:, -batch.logits_to_keep :]  # some models ignore logits_to_keep
        return kept.reshape(-1, kept.shape[-1])[batch.source]

    def _tree_logits(self, batch: tree.TreeBatch, way: Packing | None) -> Tensor:
        if way is Packing.NATIVE:
            return self._native_forward.logits(batch)
        wanted = {"logits_to_keep": batch.source} if self._selects_logits else {}
        kernel = tree_attention.FLEX if way is Packing.FLEX else tree_attention.BLOCKS
        with tree_attention.attending(self.model, batch, kernel) as mask:
            output = self.forward(
                input_ids=batch.input_ids,
                attention_mask=mask,
                position_ids=batch.position_ids,
                use_cache=False,
                **wanted,
            )
        logits: Tensor = output.logits[0]
        return logits if wanted else logits[batch.source]

    @cached_property
    def _native_forward(self) -> LlamaTraining:
        if self.autocast_dtype is not None:
            raise TypeError("the native forward computes in float32 only")
        return LlamaTraining(self.model)

    @cached_property
    def _selects_logits(self) -> bool:
        model = self.model.get_base_model() if hasattr(self.model, "get_base_model") else self.model
        return "logits_to_keep" in signature(model.forward).parameters

    @cached_property
    def packing(self) -> Packing | None:
        """The best way for this model to train on packed rows, found by trying, not by its name; None if there is none.

        A way is taken if a packed row gives the logits that padded rows give.
        """
        if self._has_window():
            return None
        vocabulary = self.model.get_input_embeddings().weight.shape[0]
        prompt = [(7 * i + 3) % vocabulary for i in range(11)]
        completions = [[(5 * i + k) % vocabulary for i in range(1, 5 + k)] for k in (1, 2, 3)]
        packed = [rows.Row(prompt, completions), rows.Row(prompt[2:], completions[:2])]
        padded = [rows.Row(row.prompt, [c]) for row in packed for c in row.completions]
        with torch.no_grad(), self.exact():
            reference = self.logits(rows.build(padded, self.pad_id, self.device))
            return next((way for way in Packing if self._agrees(way, packed, reference)), None)

    def _agrees(self, way: Packing, packed: list[rows.Row], reference: Tensor) -> bool:
        if way is Packing.FLEX and not tree_attention.flex_works(self.device):
            return False
        try:
            if way is Packing.MASK:
                ours = self.logits(rows.build(packed, self.pad_id, self.device))
            else:
                ours = self._tree_logits(tree.build(packed, self.device), way)
        except Exception:  # noqa: BLE001  a model that refuses may raise anything; padded rows always work
            return False
        return agreement(ours, reference, coarse=reference.dtype != torch.float32)

    def _has_window(self) -> bool:
        """Whether attention has a limited reach: a mask of ours would replace it, and the probe is too short to see."""
        config = self.model.config
        reaches = (getattr(config, name, None) for name in ("sliding_window", "window_size", "attention_chunk_size"))
        return any(isinstance(reach, int) and reach < self.context_length for reach in reaches)


def load_policy(config: ModelConfig, resume: Path | None = None) -> Policy:
    """The policy of this configuration; `resume` is a checkpoint folder to take its weights, or adapters, from. Raises
    Damaged where that cannot be loaded, UserError where the model cannot."""
    device = choose_device(config.device)
    source = _locate(config.name) if config.lora.r or resume is None else resume
    here = isinstance(source, str) and hub.only_here(source)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # of loading: it leaves its bars in pipes, and above the view
    try:
        # trust_remote_code: when not told, transformers asks whoever sits at the terminal
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, local_files_only=here)
        model, loading = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=_weights_dtype(config, device),
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=here,
            output_loading_info=True,
        )
        if missing := sorted(loading["missing_keys"]):  # transformers would go on with random ones
            raise Damaged(f"{len(missing)} weights are missing, e.g. {missing[0]}")
        if len(tokenizer) > (known := model.get_input_embeddings().weight.shape[0]):
            raise UserError(f"model {str(source)!r} knows {known} tokens, its tokenizer has {len(tokenizer)}")
        fp8 = _with_fp8(model.to(device), config, device)
        if config.lora.r:
            model = _with_lora(model, config.lora, resume)
        soundness.check_finite(model)
    except UserError:
        raise
    except Damaged as error:
        if resume is not None:
            raise
        raise UserError(f"cannot load model {str(source)!r}: {error}") from error
    except Exception as error:  # each library underneath raises types of its own on missing or broken files
        if source is resume and not isinstance(error, torch.OutOfMemoryError | MemoryError):
            raise Damaged(_first_line(error)) from error
        raise UserError(f"cannot load model {str(source)!r}: {_first_line(error)}") from error
    finally:
        if shown:
            logging.enable_progress_bar()
    return Policy(model.to(device), tokenizer, device, _autocast_dtype(config, device), config.name, fp8)


def agreement(ours: Tensor, reference: Tensor, *, coarse: bool) -> bool:
    """Whether two ways to compute the same logits differ by rounding only.

    Relative, since the small logits of a fresh model would make any two ways agree, until training tells them apart.
    """
    tolerance = AGREEMENT * (100.0 if coarse else 1.0) * float(reference.abs().max())
    return bool((ours.float() - reference.float()).abs().max() <= tolerance)


def choose_device(name: str) -> torch.device:
    """The device of this name; `auto` takes CUDA where there is one. UserError where it cannot be used."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device {name!r} cannot be used: {_first_line(error)}; try --model.device auto") from error
    return device


def _locate(name: str) -> str | Path:
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists() and not (path / "adapter_config.json").exists():
            raise UserError(f"model folder {name!r} has no config.json; is it a Hugging Face model folder?")
        return path
    if not hub.is_hub_name(name):
        raise UserError(f"model folder {name!r} does not exist")
    return name


def _weights_dtype(config: ModelConfig, device: torch.device) -> torch.dtype:
    if config.dtype != "auto":
        return getattr(torch, config.dtype)  # type: ignore[no-any-return]
    frozen = config.lora.r > 0  # under LoRA the base is not updated, so its small steps cannot be lost to rounding
    return torch.bfloat16 if frozen and _fast_bfloat16(device) else torch.float32


def _autocast_dtype(config: ModelConfig, device: torch.device) -> torch.dtype | None:
    if config.autocast == "off":
        return None
    return torch.bfloat16 if config.autocast == "bfloat16" or _fast_bfloat16(device) else None


def _fast_bfloat16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


def _with_fp8(model: Any, config: ModelConfig, device: torch.device) -> Fp8 | None:
    """`model` with FP8 linear layers, where the configuration asks for them. Adapters on top stay as they are."""
    if config.precision == "bf16":
        return None
    return swap_linears(model, kernels.choose(device, config.fp8_kernel), config.precision == "fp8")


def _with_lora(model: Any, config: LoraConfig, resume: Path | None) -> Any:
    """`model` with new adapters, or with those of a checkpoint."""
    import peft  # slow to import, and few need it

    if resume is not None:
        try:
            return peft.PeftModel.from_pretrained(model, resume, is_trainable=True)
        except Exception as error:
            raise Damaged(_first_line(error)) from error
    targets = list(config.target_modules) or "all-linear"
    try:
        return peft.get_peft_model(
            model, peft.LoraConfig(r=config.r, lora_alpha=config.alpha, target_modules=targets, task_type="CAUSAL_LM")
        )
    except ValueError as error:
        raise UserError(f"LoRA does not fit this model: {_first_line(error)}") from error


def _eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """All ids that end a completion: chat models often have several."""
    named = getattr(model.generation_config, "eos_token_id", None)
    ids = set(named) if isinstance(named, list) else {named}
    return frozenset(i for i in ids | {tokenizer.eos_token_id} if i is not None)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
