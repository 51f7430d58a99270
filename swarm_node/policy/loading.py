"""Loads a policy from a name, a folder or a checkpoint onto its device.

Weights come from safetensors only and no code comes with a model (`trust_remote_code` stays off),
so a stranger's model folder can be wrong but not dangerous.
"""

import mmap
import warnings
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from logging import ERROR, getLogger
from pathlib import Path
from typing import Any
from warnings import filterwarnings

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    TokenizersBackend,
)
from transformers.models.auto.tokenization_auto import (
    TOKENIZER_MAPPING_NAMES,
    tokenizer_class_from_name,
)
from transformers.utils import cached_file

from swarm_node.common.errors import UserError, first_line, reason_of
from swarm_node.common.files import read_plain, write_bytes
from swarm_node.common.parsing import parse_json
from swarm_node.common.terminal import native_kept
from swarm_node.policy import bounds, named, soundness, tokenizer_trial
from swarm_node.policy.device import attempt, keep_freed
from swarm_node.policy.download import announce, only_bars_of_downloads
from swarm_node.policy.hardware import choose_device, multiplies_bfloat16
from swarm_node.policy.llama.four_bits import is_four_bits
from swarm_node.policy.policy import Frame, Policy
from swarm_node.policy.precision import Use, plain
from swarm_node.policy.soundness import Damaged
from swarm_node.policy.tokenizer_trial import TooSlow
from swarm_node.policy.tried import Tried
from swarm_node.settings import (
    NO_TEMPLATE,
    EvaluationConfig,
    LearningConfig,
    ModelConfig,
)


def configured_policy(
    config: LearningConfig | EvaluationConfig,
    resume: Path | None = None,
    tried: Tried | None = None,
) -> Policy:
    """The policy of a whole configuration, with the frame around its prompts and the precision that
    it asks for. `tried`: what is known to work here. UserError if the model's chat template does
    not take the frame.
    """
    policy = load_policy(config.model, resume, precision_of(config))
    policy.tried = tried or policy.tried
    system = config.system if isinstance(config, EvaluationConfig) else config.environment.system
    chat = config.model.template_arguments != NO_TEMPLATE
    arguments = parse_json(config.model.template_arguments or "{}") if chat else {}
    policy.take(Frame(system, arguments, next(iter(config.generation.stop), ""), chat))
    return policy


def precision_of(config: LearningConfig | EvaluationConfig) -> Use:
    """What puts the precision of a configuration into a model."""
    if config.fp8.precision == "bf16":
        return plain
    from swarm_node.policy.fp8.linear import use_fp8  # now: few ask for it

    return partial(use_fp8, config)


ROOM_OF_TABLES = 2**30  # bytes: masks and rotations that no file has
TOKENIZER = "tokenizer.json"
NAMING_A_CLASS = (TOKENIZER, "tokenizer_config.json", "config.json")
# What tokenizers are loaded from
TOKENIZER_FILES = (
    *(TOKENIZER, "tokenizer_config.json", "vocab.json", "merges.txt", "vocab.txt"),
    *("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model", "bpe.codes"),
    *("source.spm", "target.spm", "tiktoken.model", "tekken.json"),
    *("added_tokens.json", "special_tokens_map.json"),
)
MAMBAS = {"falcon_h1", "falcon_mamba", "mamba", "mamba2", "nemotron_h"}  # as peft names them


def load_policy(config: ModelConfig, resume: Path | None = None, precision: Use = plain) -> Policy:
    """The policy of the model that `named.source` finds; `resume` is a checkpoint folder to take
    its weights, or adapters, from. `precision` puts another precision into the model, but not into
    its adapters. Raises Damaged if the checkpoint cannot be loaded, UserError if the model cannot.
    """
    if resume is None and (base := _base_of_ours(Path(config.name).expanduser())):
        resume = Path(config.name).expanduser()
        config = config.model_copy(update=base)
    began = named.source(config.name, earlier=resume is not None)
    config = config.model_copy(update={"name": began})
    device = choose_device(config.device)
    # Its copy of the base is freed, and each round merges adapters into a new one
    if config.lora_rank:
        keep_freed(plenty=False)
    source = _locate(config.name) if config.lora_rank or resume is None else resume
    # It would warn every user that it lacks a quick 4-bit product
    getLogger("bitsandbytes").setLevel(ERROR)
    # Peft reads it, and no user can change that
    filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
    try:
        with only_bars_of_downloads():
            return attempt(
                partial(_loaded, config, device, source, resume, precision),
                f"in loading model {str(source)!r}",
            )
    except UserError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not soundness.is_panic(error):
            raise
        # Each library underneath raises types of its own on missing or broken files
        if source is resume or (resume is not None and isinstance(error, Damaged)):
            raise Damaged(first_line(error)) from error
        raise UserError(f"cannot load model {str(source)!r}: {first_line(error)}") from error


def _loaded(
    config: ModelConfig, device: torch.device, source: str | Path, resume: Path | None, use: Use
) -> Policy:
    base_folder = _checked(source, resume)
    # trust_remote_code: if it is not given, transformers asks the user at the terminal
    here = isinstance(source, str) and named.only_here(source, config.revision)
    revision = config.revision or "main"  # a folder has none, and ignores it
    if isinstance(source, str) and not here:
        announce(source, revision)
    tokenizer_folder = _check_tokenizer(source, revision, here)
    with native_kept(f"the tokenizer of {config.name}"):
        tokenizer = AutoTokenizer.from_pretrained(
            source, revision=revision, trust_remote_code=False, local_files_only=here
        )
    if tokenizer_folder is not None:
        setattr(tokenizer, tokenizer_trial.LOADED_FROM, tokenizer_folder.absolute())
    if base_folder is None:
        _check_hub(source, revision, here)
    else:
        _check_weights(base_folder)
    model, loading = AutoModelForCausalLM.from_pretrained(
        source,
        revision=revision,
        dtype=weights_dtype(config, device),
        use_safetensors=True,
        trust_remote_code=False,
        local_files_only=here,
        output_loading_info=True,
        **_quantized(config, device),
    )
    # Transformers would continue with random weights
    if missing := sorted(loading["missing_keys"]):
        raise Damaged(f"{len(missing)} weights are missing, e.g. {missing[0]}")
    if len(tokenizer) > (known := model.get_input_embeddings().weight.shape[0]):
        raise UserError(
            f"model {str(source)!r} knows {known} tokens, its tokenizer has {len(tokenizer)}: take "
            "the tokenizer of this model"
        )
    model = model if config.quantization == "nf4" else model.to(device)
    frozen = config.lora_rank and device.type == "cpu" and model.dtype == torch.float32
    # A small model of the user's own is not worth a file there
    place = named.cache() / Path(source).name
    base = (
        _share_base(model, place)
        if frozen and (place == Path(source) or model.num_parameters() > 2**27)
        else None
    )
    precision = use(model, device)
    if config.lora_rank:
        model = _with_lora(model, config.lora_rank, resume).to(device)
    soundness.check_finite(model)
    soundness.check_template(tokenizer)
    commit = named.commit_of(source, revision) if isinstance(source, str) else ""
    if slow := slow_bfloat16(config, device):
        named.say(slow)
    policy = Policy(
        model,
        tokenizer,
        device,
        autocast_dtype(config, device),
        config.name,
        precision,
        commit,
        base=base,
    )
    for module in model.modules():
        if is_four_bits(module):
            # Else bitsandbytes lays it out for inference on a CPU, without a backward pass
            module.training = True
    # A model that cannot compute is refused now, and not in the first round
    with torch.no_grad(), policy.exact():
        policy.forward(input_ids=torch.tensor([[0, 1]], device=device))
    return policy


def _base_of_ours(folder: Path) -> dict[str, Any]:
    """The options of the model that the adapters in this checkpoint belong to, where it is one of
    ours and the folder that they name is not on this machine; empty for all other folders.
    """
    adapters, state = folder / "adapter_config.json", folder / "state.json"
    if not adapters.is_file() or not state.is_file():
        return {}
    try:
        told, model = bounds.read(adapters), soundness.read_state(state)["extra"]["model"]
        name, rank = str(model["name"]), int(told["r"])
    except (bounds.TooLarge, Damaged, LookupError, TypeError, ValueError):
        return {}  # the loader says what is wrong with the folder
    gone = not Path(str(told.get("base_model_name_or_path"))).is_dir()
    ours = named.is_starter(name) or name in named.KNOWN
    return {"name": name, "lora_rank": rank} if gone and ours and rank > 0 else {}


def _checked(source: str | Path, resume: Path | None) -> Path | None:
    """The folder of the whole model: `source`, or the one that its adapters name; None for a hub
    model. Raises Damaged where a folder asks for too much, or for code.
    """
    folders = [folder for folder in (source, resume) if isinstance(folder, Path)]
    base = source if isinstance(source, Path) else None
    if base is not None and not (base / "config.json").exists():
        named_there = bounds.read(base / "adapter_config.json").get("base_model_name_or_path")
        base = Path(str(named_there))
        folders += [base] if base.is_dir() else []
    try:
        for folder in folders:
            soundness.check_adapters(folder)
            bounds.check_folder(folder)
    except bounds.TooLarge as error:
        raise Damaged(str(error)) from error
    return base if base is not None and base.is_dir() else None


def _check_hub(name: str | Path, revision: str, here: bool) -> None:
    """Raises TooLarge where the configuration of a hub model asks for too much."""
    if isinstance(name, Path):
        name = str(bounds.read(name / "adapter_config.json").get("base_model_name_or_path"))
        revision, here = "main", False
    found, _ = PretrainedConfig.get_config_dict(name, revision=revision, local_files_only=here)
    bounds.check_config(found)


def _check_tokenizer(source: str | Path, revision: str, here: bool) -> Path | None:
    """Raises Damaged where the tokenizer of this folder or hub model takes too much time or memory.
    It is tried in a process of its own before a library of ours loads it. Returns the folder that
    it is in, where no tokenizer.json decides what it does.
    """
    here_too = partial(_of_hub, revision=revision, local_files_only=here)
    if isinstance(source, Path):
        folder: Path | None = source
    else:
        folder = here_too(source, NAMING_A_CLASS)
    if folder is None:
        return None
    try:
        if _is_its_file_alone(folder):
            place = folder / TOKENIZER
            tokenizer_trial.check_file(read_plain(place, bounds.MAX_TOKENIZER))
            return None
        if isinstance(source, str):
            here_too(source, TOKENIZER_FILES)
        if not any((folder / name).exists() for name in TOKENIZER_FILES):
            return None  # transformers says what is missing
        tokenizer_trial.check_folder(folder)
    except TooSlow as error:
        raise Damaged(f"its tokenizer {error}") from error
    return folder


def _of_hub(name: str, files: Sequence[str], **options: Any) -> Path | None:
    """The folder on this machine with those of these files that a hub model has; None if it has
    none of them.
    """
    options["_raise_exceptions_for_missing_entries"] = False
    found = [cached_file(name, file, **options) for file in files]
    return next((Path(file).parent for file in found if file), None)


def _is_its_file_alone(folder: Path) -> bool:
    """Whether this folder has a tokenizer.json, and transformers takes a class that reads it."""
    if not (folder / TOKENIZER).exists():
        return False
    told = _values_of(folder / "tokenizer_config.json")
    model = _values_of(folder / "config.json")
    usual = TOKENIZER_MAPPING_NAMES.get(str(model.get("model_type")))
    classes = (told.get("tokenizer_class"), model.get("tokenizer_class"), usual)
    return all(_reads_the_file(name) for name in classes if isinstance(name, str))


def _values_of(file: Path) -> dict[str, Any]:
    try:
        return bounds.read(file) if file.exists() else {}
    except bounds.TooLarge:
        return {}  # its library says what is wrong with it


def _reads_the_file(name: str) -> bool:
    """Whether the class of this name is one of those in Rust; so is what stands for no class."""
    try:
        found = tokenizer_class_from_name(name)
    except ImportError:
        return False
    return not isinstance(found, type) or issubclass(found, TokenizersBackend)


def _check_weights(folder: Path) -> None:
    """Raises Damaged where config.json describes a model that is larger than the weights in the
    folder can be: transformers would make the rest up, in memory. `_check_hub` is for a model of
    the hub.
    """
    held = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    if not held:  # transformers says what is missing
        return
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    weights = sum(weight.numel() for weight in model.parameters())
    tables = sum(table.numel() * table.itemsize for table in model.buffers())
    # A weight takes a byte or more, and a bit or more where the weights are packed
    most = held * 8 if getattr(config, "quantization_config", None) else held
    if weights > most or tables > held + ROOM_OF_TABLES:
        raise Damaged(
            f"config.json describes {weights:,} weights and {tables:,} bytes of tables, its files "
            f"have {held:,} bytes"
        )


def _quantized(config: ModelConfig, device: torch.device) -> dict[str, Any]:
    """Options that load the base in 4 bits, where the configuration asks for that."""
    if config.quantization == "none":
        return {}
    if not config.lora_rank:
        raise UserError(
            "model.quantization nf4 needs model.lora_rank above 0: only a frozen base can have 4 "
            "bits"
        )
    if find_spec("bitsandbytes") is None or find_spec("accelerate") is None:
        raise UserError(
            "model.quantization nf4 needs bitsandbytes: pip install 'textswarm[memory]', or leave "
            "it at none"
        )
    from transformers import BitsAndBytesConfig  # now: an extra

    products = autocast_dtype(config, device) or weights_dtype(config, device)
    four_bits = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=products,
    )
    return {"quantization_config": four_bits, "device_map": {"": str(device)}}


def _locate(name: str) -> str | Path:
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").exists() and not (path / "adapter_config.json").exists():
            raise UserError(
                f"model folder {name!r} has no config.json; is it a Hugging Face model folder? "
                "Name the one that holds config.json"
            )
        return path
    if not named.is_hub_name(name):
        raise UserError(f"model folder {name!r} does not exist")
    return name


def weights_dtype(config: ModelConfig, device: torch.device) -> torch.dtype:
    """Type of the weights: as configured, or what suits the device."""
    if config.dtype != "auto":
        return getattr(torch, config.dtype)  # type: ignore[no-any-return]
    # Under LoRA the base is not updated, so its small steps cannot be lost to rounding
    frozen = config.lora_rank > 0
    return torch.bfloat16 if frozen and multiplies_bfloat16(device) else torch.float32


def autocast_dtype(config: ModelConfig, device: torch.device) -> torch.dtype | None:
    """Type of the matrix products; None where it is that of the weights and of all else."""
    # Weights in bfloat16 on a CPU, too, have a residual stream in float32
    asked = config.dtype == "bfloat16" and device.type == "cpu"
    able = config.dtype != "float32" and multiplies_bfloat16(device)
    return torch.bfloat16 if asked or able else None


def slow_bfloat16(config: ModelConfig, device: torch.device) -> str:
    """What a user should know where this device does not multiply bfloat16 by itself; "" where
    there is nothing to say.
    """
    if device.type == "cuda" and not multiplies_bfloat16(device):
        card = torch.cuda.get_device_name(device)
        if config.dtype == "bfloat16":
            return f"{card} multiplies bfloat16 slowly: --model.dtype float32 is faster there"
        return (
            f"{card} does not multiply bfloat16, so weights and products are float32, which take "
            "twice the memory: `swarm-node check` says what fits"
        )
    # Not in every build
    has_bfloat16 = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: True)
    if config.dtype == "bfloat16" and device.type == "cpu" and not has_bfloat16():
        return "this CPU multiplies bfloat16 slowly: --model.dtype float32 is several times as fast"
    return ""


def _with_lora(model: Any, rank: int, resume: Path | None) -> Any:
    """`model` with new adapters, or with those of a checkpoint."""
    import peft  # slow to import, and few need it

    if resume is not None:
        try:
            return peft.PeftModel.from_pretrained(model, resume, is_trainable=True)
        except Exception as error:
            raise Damaged(first_line(error)) from error
    # This leaves the head out
    options: dict[str, Any] = {"target_modules": "all-linear", "task_type": "CAUSAL_LM"}
    if model.config.model_type in MAMBAS:
        # Mamba's kernels take their weights without adapters
        options["exclude_modules"] = ["out_proj", "conv1d"]
    try:
        # Peft uses an outdated name
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            return peft.get_peft_model(
                model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, **options)
            )
    except ValueError as error:
        raise UserError(
            f"LoRA does not fit this model: {first_line(error)}; train all weights, "
            "with model.lora_rank 0"
        ) from error


def _share_base(model: nn.Module, place: Path) -> mmap.mmap | None:
    """Maps the frozen weights, in float32, from a file in this user's cache. So all nodes of a
    machine hold one copy, and none while generation has its own. One process writes the file first
    if it is missing or has other weights, bit for bit. Returns the mapped memory; if that fails,
    the model keeps its own and a line says so.
    """
    weights, file, memory = list(model.parameters()), place.with_name(f"{place.name}.float32"), None
    try:
        if (memory := _taken(weights, file)) is None:
            with named.alone(place):
                # Another process may have written it meanwhile
                if (memory := _taken(weights, file)) is None:
                    write_bytes(file, (weight.detach().numpy().data for weight in weights))
                    memory = _taken(weights, file)
    except OSError as error:
        named.say(
            f"the weights of {place.name} are not shared with other nodes: {file}: "
            f"{reason_of(error)}"
        )
    return memory


def _taken(weights: list[nn.Parameter], file: Path) -> mmap.mmap | None:
    """The file as mapped memory; None if it lacks weights. The weights that it has are taken from
    it. A change to such a weight would stay in this process, in its own copy of the page, until
    `Policy.let_go`.
    """
    sizes = [weight.numel() for weight in weights]
    if not file.exists() or file.stat().st_size != 4 * sum(sizes):
        return None
    with file.open("rb") as opened:
        memory = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
    whole = True
    for weight, flat in zip(
        weights, torch.split(torch.frombuffer(memory, dtype=torch.float32), sizes), strict=True
    ):
        mapped = flat.view_as(weight)
        if same := torch.equal(weight.detach().view(torch.int32), mapped.view(torch.int32)):
            weight.data = mapped
        whole &= same
    return memory if whole else None
