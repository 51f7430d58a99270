"""Tiny models, tokenizers, groups and one small environment, made here: nothing is downloaded and
nothing is a mock.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, cast

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from protocol import codec
from protocol.admission import AdmissionRules
from protocol.identity import Identity
from protocol.messages import PeerId, Question, Round, Turn
from swarm_node.generation.generator import BatchGenerator
from swarm_node.network.in_memory import Alone, MemorySwarm
from swarm_node.node.learner import build_defence
from swarm_node.node.round import Node
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import (
    Catalogue,
    Generated,
    Group,
    Played,
    Plays,
    Skipped,
    Tokens,
    ToPlay,
)
from swarm_node.rollouts.interfaces import Environment, Network
from swarm_node.rollouts.pool import RolloutPool, ScoreGroups, ScoringInStep
from swarm_node.rollouts.sampler import Sampler, UniformSampler
from swarm_node.settings import DefenceConfig, GenerationConfig, RoundConfig, TrainingConfig
from swarm_node.training.trainer import GrpoTrainer
from tests import groups
from tests.groups import lifted, scored

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
ALPHABET = [chr(code) for code in range(32, 127)] + ["\n"]
VOCABULARY = len(SPECIALS) + len(ALPHABET)
CONTEXT = 128

BASE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.25,  # far from uniform, so that a wrong position or mask shows
    "pad_token_id": PAD,
    "bos_token_id": BOS,
    "eos_token_id": EOS,
}
SSM = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_n_groups": 1}
_EXPERTS = {"num_experts": 2, "num_local_experts": 2, "num_experts_per_tok": 1}
_DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
    "linear_value_head_dim": 8, "head_dim": 8,
    "layer_types": ["linear_attention", "full_attention"],
}  # fmt: skip
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaConfig", {}),
    "Qwen2": ("Qwen2Config", {"tie_word_embeddings": True}),
    "Qwen3": ("Qwen3Config", {"head_dim": 16}),
    "Mistral": ("MistralConfig", {}),
    "Gemma2": ("Gemma2Config", {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "Gemma3": ("Gemma3TextConfig", {"head_dim": 8, "query_pre_attn_scalar": 8}),
    "Phi3": ("Phi3Config", {}),
    "GPT2": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT}),
    "GPTNeoX": ("GPTNeoXConfig", {}),
    "OPT": ("OPTConfig", {"ffn_dim": 48, "word_embed_proj_dim": 32, "init_std": 0.25}),
    "Bloom": ("BloomConfig", {"n_layer": 2, "n_head": 4}),
    "Mamba": ("MambaConfig", {"state_size": 4}),
    "Falcon-H1": ("FalconH1Config", {**SSM, "mamba_n_heads": 4, "mamba_d_ssm": 32}),
    "Granite 4": (
        "GraniteMoeHybridConfig",
        {**SSM, **_EXPERTS, "layer_types": ["mamba", "attention"]},
    ),
    "Jamba": (
        "JambaConfig",
        {**_EXPERTS, "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_d_state": 4},
    ),
    "LFM2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"], "block_multiple_of": 8}),
    "Qwen3.5": ("Qwen3_5TextConfig", _DELTA),
    "Qwen3-Next": ("Qwen3NextConfig", {**_DELTA, **_EXPERTS, "moe_intermediate_size": 16}),
}
RECURRENT = tuple(FAMILIES)[-7:]


def characters(chat: bool = False) -> PreTrainedTokenizerFast:
    """One token per printable ASCII character, <unk> for others."""
    vocabulary = {token: number for number, token in enumerate([*SPECIALS, *ALPHABET])}
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<bos>",
        eos_token="<eos>",
        unk_token="<unk>",
    )
    if chat:
        tokenizer.chat_template = (
            "{{ bos_token }}{% for m in messages %}{{ m['content'] + '\n' }}{% endfor %}"
        )
    return tokenizer


def tiny_model(family: str = "Llama", seed: int = 0, **overrides: Any) -> Any:
    """A randomly initialised model in evaluation mode, float32."""
    torch.manual_seed(seed)
    config_class, extra = FAMILIES[family]
    config = getattr(transformers, config_class)(**{**BASE, **extra, **overrides})
    return AutoModelForCausalLM.from_config(config).eval()


def tiny_policy(
    family: str = "Llama",
    seed: int = 0,
    *,
    eos: Sequence[int] = (EOS,),
    chat: bool = False,
    autocast: torch.dtype | None = None,
    **overrides: Any,
) -> Policy:
    """A policy of a tiny model. With a random model every id of `eos` ends a completion about
    equally often.
    """
    model = tiny_model(family, seed, **overrides)
    model.generation_config.eos_token_id = list(eos)
    return Policy(model, characters(chat), torch.device("cpu"), autocast, family)


def with_lora(policy: Policy) -> Policy:
    """This policy under adapters that change what it says."""
    import peft

    torch.manual_seed(3)
    adapters = peft.LoraConfig(
        r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False
    )
    return Policy(
        peft.get_peft_model(policy.model, adapters),
        policy.tokenizer,
        policy.device,
        policy.autocast_dtype,
    )


# Signs before the digits: about one token in eight ends a completion
MANY_EOS = (EOS, *range(5, 17))


DIGITS = {"environment": "digits", "version": "1", "dataset": "sums", "config_id": "easy"}


def question(author: str = "ann", round: int = 0, index: int = 0, **fields: Any) -> Question:
    return groups.question(PeerId(author), round, index, **{**DIGITS, **fields})


def text_group(
    rewards: Sequence[float],
    texts: Sequence[str],
    prompt: str = "1+1=",
    ended: Sequence[bool] | None = None,
    author: str = "ann",
    round: int = 0,
    index: int = 0,
) -> Group:
    """A group as received from a peer: text only."""
    return scored(
        groups.group(PeerId(author), round, index, texts, ended, **DIGITS), prompt, tuple(rewards)
    )


LESSON = text_group([1.0, 0.0, 0.0, 1.0], ["12", "abc", "4x", "7"])


def token_group(
    rewards: Sequence[float],
    ids: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]],
    prompt: str = "1+1=",
    ended: Sequence[bool] | None = None,
) -> Group:
    """A local group, with its tokens and their log-probs. Its text does not matter."""
    received = text_group(rewards, ["x"] * len(ids), prompt, ended)
    tokens = tuple(Tokens(tuple(i), tuple(p)) for i, p in zip(ids, log_probs, strict=True))
    return scored(received, prompt, received.rewards, tokens)


def plain_log_probs(
    model: Any, prompt: Sequence[int], completion: Sequence[int], temperature: float = 1.0
) -> Any:
    """Log-probs [tokens] by one forward pass of the library over one unpadded sequence: the
    reference for all else.
    """
    logits = (
        model(input_ids=torch.tensor([[*prompt, *completion]]))
        .logits[0, len(prompt) - 1 : -1]
        .float()
    )
    chosen = torch.tensor(list(completion))[:, None]
    return torch.log_softmax(logits / temperature, -1).gather(1, chosen)[:, 0]


def weights_of(of: Any) -> list[torch.Tensor]:
    """A copy of the weights of a model, or of a node's."""
    model = trainer_of(of).policy.model if isinstance(of, Node) else of
    return [p.detach().clone() for p in model.parameters()]


def gradients_of(trainer: GrpoTrainer) -> list[torch.Tensor]:
    """A list to which each step will add the gradient of each parameter, as the optimiser gets
    it.
    """
    found: list[torch.Tensor] = []
    trainer.optimizer.register_step_pre_hook(
        lambda *_: found.extend(
            p.grad.clone() for p in trainer.policy.model.parameters() if p.grad is not None
        )
    )
    return found


@dataclass
class Digits:
    """An environment in plain Python: a completion is right if it has a digit."""

    refuse_prompt: frozenset[int] = frozenset()  # indices of questions that cannot be built
    refuse_score: frozenset[int] = frozenset()  # indices of questions whose scorer fails
    asked: list[Question] = field(default_factory=list)
    scored: list[tuple[Question, tuple[str, ...]]] = field(default_factory=list)

    def sample(self, author: PeerId, now: Round, count: int) -> list[Question]:
        questions = [question(author, now, index) for index in range(count)]
        self.asked += questions
        return questions

    @property
    def catalogue(self) -> Catalogue:
        return Catalogue({"digits": ("1", {"sums": ("easy",)})})

    def prompts(self, questions: Sequence[Question]) -> list[str | Skipped]:
        return [
            Skipped("prompt cannot be built")
            if asked.index in self.refuse_prompt
            else f"{'+' * (asked.index % 3)}{asked.seed % 10**6}:"
            for asked in questions
        ]

    def score(
        self, completions: Sequence[tuple[Question, Sequence[str]]]
    ) -> list[tuple[float, ...] | Skipped]:
        self.scored += [(asked, tuple(texts)) for asked, texts in completions]
        return [
            Skipped("scoring failed")
            if asked.index in self.refuse_score
            else tuple(float(any(c.isdigit() for c in text)) for text in texts)
            for asked, texts in completions
        ]

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return lifted(self.score, asked)

    def close(self) -> None:
        pass


class Guessing(Digits):
    """Several turns: a turn is right if it has a digit from `right` on; the reply to a smaller
    digit is `<higher>`.
    """

    most, right = 4, 7

    @property
    def catalogue(self) -> Catalogue:
        return replace(super().catalogue, several={"digits": self.most})

    def play(self, asked: Sequence[ToPlay]) -> list[Plays]:
        return [tuple(map(self._played, episodes)) for _, episodes in asked]

    def _played(self, turns: Sequence[Turn]) -> Played:
        best = [max((int(c) for c in turn.text if c in "0123456789"), default=-1) for turn in turns]
        over = next((number for number, digit in enumerate(best) if digit >= self.right), len(best))
        said = tuple((("<higher>",) if digit >= 0 else ("a digit?",)) for digit in best[:over])
        done = over < len(best)
        trace = codec.to_text(hashlib.sha256(repr((said, done)).encode()).digest()[:8])
        return Played((*said, *[()] * done), done, max(best[-1], 0) / 9, trace)


IDENTITIES = [Identity.from_seed_bytes(bytes([65 + k]) * 32) for k in range(9)]
GENERATION = GenerationConfig(num_generations=4, max_completion_length=6)


def make_node(
    number: int = 0,
    network: Network | None = None,
    environment: Environment | None = None,
    *,
    seed: int = 0,
    local: int = 2,
    external: int = 2,
    questions: int = 3,
    policy: Policy | None = None,
    most_waiting: int = 1024,
    defence: Sequence[str] = (),
    **training: Any,
) -> Node:
    """A whole node on a tiny model. Only the clock is not real."""
    peer_id = IDENTITIES[number].peer_id
    policy = policy or tiny_policy("Qwen2", seed, eos=MANY_EOS)
    ticks = count()
    return Node(
        peer_id=peer_id,
        seed=seed,
        environment=environment or Digits(),
        generator=BatchGenerator(policy, GENERATION),
        trainer=GrpoTrainer(
            policy, TrainingConfig(**{"learning_rate": 3e-3, **training}), GENERATION
        ),
        network=network or Alone(),
        pool=RolloutPool(peer_id, max_groups=most_waiting),
        sampler=UniformSampler(),
        defence=build_defence(DefenceConfig(layers=tuple(defence))),
        config=RoundConfig(questions=questions, local_groups=local, external_groups=external),
        group_size=GENERATION.num_generations,
        clock=lambda: float(next(ticks)),
    )


def join(swarm: MemorySwarm, number: int, environment: Environment | None = None) -> Network:
    identity = IDENTITIES[number]
    environment = environment or Digits()
    rules = AdmissionRules(
        "test", identity.peer_id, environment.catalogue.knows, turns=environment.catalogue.turns
    )
    return swarm.join(identity, rules)


def make_swarm(size: int, swarm: MemorySwarm | None = None, **options: Any) -> list[Node]:
    """Nodes in this swarm, or in one of their own."""
    swarm = swarm or MemorySwarm(Random(0))
    return [make_node(number, join(swarm, number), **options) for number in range(size)]


def select(
    sampler: Sampler,
    candidates: Sequence[Group],
    score: ScoreGroups,
    count: int,
    seed: int = 0,
    own: Sequence[Group] = (),
) -> tuple[list[Group], list[Group]]:
    """The external groups that a round with this sampler takes, and those candidates that leave the
    node's pool.
    """
    me, unused = IDENTITIES[0].peer_id, cast(Any, None)
    config = RoundConfig(local_groups=0, external_groups=count)
    pool = RolloutPool(me, max_per_peer=len(candidates) + 1)
    pool.add(candidates, Round(0))
    defence, scoring = build_defence(DefenceConfig(layers=())), ScoringInStep(score)
    node = Node(
        me,
        seed,
        unused,
        unused,
        unused,
        Alone(),
        pool,
        sampler,
        defence,
        config,
        2,
        float,
        external=scoring,
    )
    found = node.select(Generated(Round(0), list(own), {}, {}))
    waiting = pool.candidates()
    return found.external, [each for each in candidates if each not in waiting]


def run_together(nodes: Sequence[Node], rounds: int, start: int = 0) -> list[list[Any]]:
    """Runs rounds of all nodes: all generate, then all collect and train. Returns reports by round
    and node.
    """
    reports = []
    for now in range(start, start + rounds):
        asked = [node.produce(Round(now)) for node in nodes]
        reports.append([node.consume(own) for node, own in zip(nodes, asked, strict=True)])
    return reports


def trainer_of(node: Node) -> GrpoTrainer:
    assert isinstance(node.trainer, GrpoTrainer)
    return node.trainer
