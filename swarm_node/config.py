"""Everything a user can set, with its unit and its default. Frozen, strict about names, importing nothing heavy.

One long file, because it is one list to look things up in. Docstrings of fields are the help texts of the command line.
Names follow TRL where TRL has the thing.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LoraConfig(Section):
    r: Count = 0
    """Rank of LoRA adapters (peft); 0 trains all weights."""
    alpha: Positive = 32
    """Scale of the adapters: their output is multiplied by alpha / r."""
    target_modules: tuple[str, ...] = ()
    """Modules that get an adapter; empty means all linear layers but the output head."""


class ModelConfig(Section):
    name: str = "rare"
    """A starter (dense, rare, very_rare, rarest, rare_small, rare_large, puzzler), a folder, or a Hugging Face hub
    name."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights. auto: float32 on the CPU and for full training; bfloat16 under LoRA on a GPU that has it."""
    autocast: Literal["auto", "off", "bfloat16"] = "auto"
    """Type of the matrix products. auto: bfloat16 on a GPU that has it, off elsewhere."""
    device: str = "auto"
    """auto takes CUDA where there is one, else the CPU; or name one: cpu, cuda, cuda:1, mps."""
    precision: Literal["bf16", "fp8", "fp8_rollout"] = "bf16"
    """Of linear layers but the output head. bf16: as dtype and autocast say. fp8: block-scaled FP8 in writing and in
    training alike (Jet-RL). fp8_rollout: in writing only, to compare with; choose training.objective truncated."""
    fp8_kernel: Literal["auto", "reference", "fast"] = "auto"
    """auto: the fastest FP8 product that works here, on a CPU the reference. reference: emulated exactly, slow."""
    lora: LoraConfig = LoraConfig()


class GenerationConfig(Section):
    num_generations: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per question: the GRPO group size G."""
    max_completion_length: Positive = 16
    """Tokens a completion may have before it is cut off."""
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    """Divides the logits before sampling; the loss uses the same."""
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Nucleus: sample among the likeliest tokens that together have this probability; 1 turns it off."""
    top_k: Count = 0
    """Sample among the k likeliest tokens; 0 turns it off."""
    max_concurrent_tokens: Count = 0
    """Tokens, of prompts and completions together, to decode at the same time; 0 decodes a round's questions all at
    once. Bounds memory: completions are admitted by their expected length, 1.3 times as many as would fit."""
    stop_below: Annotated[float, Field(le=0.0)] = 0.0
    """Break a completion off when the exponentially weighted mean of its log-probs falls below this (nats per token);
    0 turns it off. The published Temporal Clue recipe has -3.0."""
    stop_memory: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.992
    """Weight of the past in that mean, at each token."""
    decoder: Literal["auto", "own", "model"] = "auto"
    """own: hand-written Llama/Qwen forward; model: the model's own forward; auto: own where its logits agree."""
    vllm_url: str = ""
    """Generate with the vLLM server at this address, e.g. http://127.0.0.1:8000, instead of in this process."""
    vllm_folder: Path = Path("~/.swarm-node/vllm")
    """Folder that the server serves: the weights are written there after each update."""
    vllm_timeout: Annotated[float, Field(gt=0.0)] = 600.0
    """Seconds that the server may take for one question and its completions."""


class RoundConfig(Section):
    questions: Annotated[int, Field(ge=1, le=256)] = 9
    """Questions this node asks itself per round. One of each task when equal to the number of tasks."""
    local_groups: Count = 4
    """Own groups in the training set of a round (I of the paper)."""
    external_groups: Count = 4
    """Groups heard from other peers in the training set of a round (J of the paper); 0 trains alone."""
    fill_with_own: bool = True
    """In a round for which nothing was heard, own groups take the place of others', so that a node without peers
    trains on a full batch. Off in simulations, whose arms mean what they say."""
    local_sampler: Literal["uniform", "informative"] = "uniform"
    """How own groups are chosen: uniformly (the paper), or only among those with a non-zero advantage."""
    external_sampler: Literal["uniform", "matched"] = "uniform"
    """uniform: drop groups without signal, then uniform (the paper). matched (an ablation): only as many as make the
    informative groups of a round equal to what training on local + external own groups would have had."""


class TrainingConfig(Section):
    learning_rate: Annotated[float, Field(gt=0.0)] = 3e-4
    """Peak rate of AdamW. 3e-4 suits the starters; start at 1e-6 to 1e-5 for a pretrained model."""
    warmup_steps: Count = 0
    """Optimiser steps over which the rate rises linearly from 0."""
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    """Decoupled decay of AdamW; 0 makes it Adam, as in the paper."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of AdamW's first and second moments."""
    max_grad_norm: Annotated[float, Field(gt=0.0)] = 1.0
    """Gradients are scaled down to this norm."""
    epsilon: Annotated[float, Field(ge=0.0)] = 0.2
    """Lower clip of the probability ratio: 1 - epsilon."""
    epsilon_high: Annotated[float, Field(ge=0.0)] = 0.28
    """Upper clip of the probability ratio: 1 + epsilon_high."""
    objective: Literal["clipped", "decoupled", "interpolated", "truncated", "two_sided"] = "clipped"
    """clipped: PPO around the policy that wrote the text. For text that older weights wrote: decoupled (AReaL) clips
    around the policy before the update and weighs by how the two differ; interpolated guesses that policy's log-probs;
    truncated is decoupled with a limit of 2; two_sided also bounds the ratio of bad tokens."""
    importance_limit: Annotated[float, Field(ge=0.0)] = 0.0
    """Limit of the weight of a token in decoupled, interpolated and truncated; 0 takes 5, and 2 for truncated."""
    beyond_limit: Literal["cap", "mask"] = "cap"
    """What happens to tokens above importance_limit: held there, or left out of the loss."""
    external_weight: Literal["admission", "sequence", "expectation"] = "admission"
    """Weight of completions of others. admission: as if this policy had written them (the paper). sequence and
    expectation compare with log-probs that the author advises, where there are any: in simulations only, so far."""
    beta: Annotated[float, Field(ge=0.0)] = 0.0
    """Weight of the KL penalty to the initial policy; 0 (the paper) keeps no reference model."""
    loss_type: Literal["grpo", "dapo", "dr_grpo"] = "grpo"
    """Normalisation. grpo: mean of each completion's token mean; dapo: mean over all tokens of the update;
    dr_grpo: sum over tokens divided by completions x max_completion_length."""
    scale_rewards: Literal["group", "none"] = "group"
    """group divides advantages by the group's standard deviation; none leaves them in units of reward."""
    num_iterations: Positive = 1
    """Passes over the training set of a round. With more than one the ratio leaves 1 and clipping matters."""
    minibatches: Positive = 1
    """Optimiser steps per pass: the training set is split into this many parts."""
    token_budget: Count = 0
    """Tokens, padding included, of one forward and backward pass; gradients accumulate over such micro-batches.
    0 takes 16384 on a GPU and 4096 on a CPU."""
    micro_batches: Literal["tight", "dynamic"] = "tight"
    """How rows are put together within the token budget. tight closes a micro-batch whose padding grows large; dynamic
    (AReaL) fills as few as will do, evenly: for devices on which a pass costs more than padding."""
    layout: Literal["auto", "packed", "padded"] = "auto"
    """packed: each prompt once, its completions behind it, under tree attention or a tree mask; padded: one completion
    a row. auto: packed where the model's logits agree, found out once at start; `check` says what was found."""
    mask_truncated_completions: bool = False
    """Leave completions that were cut off out of the loss."""


class EnvironmentConfig(Section):
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config, e.g. chain_sum/easy or temporal_clue/tiny. Empty: the nine tasks the starters know."""
    puzzles: Path | None = None
    """JSON file of puzzles (prompt, solution) that the task temporal_clue/published asks."""
    scoring: Literal["exact", "graded"] = "exact"
    """exact: 1 for a right answer, else 0; graded: the data set's own partial credit."""
    instruction: str = ""
    """A paragraph put after every question, e.g. to ask a chat model for the answer in <answer> tags."""
    time_limit: Annotated[float, Field(gt=0.0)] = 5.0
    """Seconds the judge may take for one group before it is killed and the group skipped."""
    judges: Positive = 1
    """Judge processes that score groups side by side: for scorers that cost time, which reasoning-gym's do not."""
    memory_limit: Positive = 1024
    """Megabytes the judge process may use."""


class PoolConfig(Section):
    max_age: Count = 2
    """Rounds a group heard from a peer stays available, by local arrival."""
    max_groups: Positive = 1024
    """Groups held at most; the oldest go first."""
    max_per_peer: Positive = 32
    """Groups held of any one peer."""


Layer = Literal["length", "duplicates", "ngrams", "regroup", "rescue", "clip", "positives"]


class DefenceConfig(Section):
    """Against text of others that is right and poisoned. docs/results/poisoning.md measures every layer."""

    use: tuple[Layer, ...] = ("length", "ngrams", "rescue")
    """Layers. length: drop completions much longer than own ones; duplicates: one of near-identical completions;
    ngrams: drop text with strings that others' better answers share and own ones lack; regroup: set others' better
    answers off against own attempts at the question, never against what came with them; rescue: regroup, adding them
    only where they did better than every own attempt; clip: leave tokens out of the
    loss that the own policy would hardly say; positives: leave out completions of others below their group's mean."""
    own_samples: Annotated[int, Field(ge=2, le=64)] = 6
    """regroup: own attempts at each question drawn from others."""
    foreign_right: Positive = 2
    """regroup: distinct completions of a peer added to them at most."""
    floor: Share = 0.02
    """clip: probability under the own policy below which a token of others is left out."""
    length_factor: Annotated[float, Field(gt=0.0)] = 2.0
    """length: completions longer than this many times a long own one (95th percentile of characters) are dropped."""
    enriched_share: Share = 0.15
    """ngrams: least share of others' better answers that a string must stand in to be alarming."""
    enrichment: Annotated[float, Field(ge=1.0)] = 4.0
    """ngrams: and how many times as often as in own text."""


class CheckpointConfig(Section):
    every: Positive = 20
    """Rounds between checkpoints. One is always written when the node stops."""
    keep: Positive = 2
    """Checkpoints kept on disk."""


class ValidationConfig(Section):
    """Held-out questions between rounds. Off by default: it costs generation."""

    every: Count = 0
    """Rounds between validations; 0 turns them off. The checkpoint with the highest reward is kept in the folder
    `best` of the home, beside the last ones."""
    questions: Positive = 64
    """Held-out questions of each validation, over the tasks in turn; always the same ones."""
    tasks: tuple[str, ...] = ()
    """Tasks to validate on; empty takes those trained on."""
    puzzles: Path | None = None
    """Puzzle file of temporal_clue/published in validation, so that it is not the one trained on."""


class NetworkConfig(Section):
    enabled: bool = True
    """Whether to look for others at all; off, own groups take the place of theirs."""
    backend: Literal["hivemind", "libp2p"] = "hivemind"
    """Library that carries the messages; nodes of both kinds make one swarm. libp2p needs the extra of that name."""
    peers: tuple[str, ...] = ()
    """Entry nodes as full multiaddrs, /ip4/1.2.3.4/tcp/31330/p2p/12D3KooW... (also: --peers). Empty: those known from
    last time."""
    host: str = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on; 127.0.0.1 keeps the node to this machine."""
    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """TCP port to listen on; 0 takes a free one."""
    announce: tuple[str, ...] = ()
    """Addresses to tell others, as multiaddrs, where the node cannot see them itself (a forwarded port)."""
    exchange_seconds: Annotated[float, Field(gt=0.0, le=3600.0)] = 10.0
    """Seconds between two exchanges of announcements with another peer."""
    pull: Count = 0
    """Groups of others to fetch per round; 0 fetches as many as a round trains on."""
    serve_rounds: Positive = 3
    """Own rounds whose groups stay available to others."""
    relay: bool = True
    """Be reached through a relay where no connection comes in directly."""
    mdns: bool = True
    """Find nodes on the same local network without entry nodes."""
    gossipsub: bool = False
    """Also spread announcements by GossipSub: quicker, for local networks of up to 64 nodes."""
    upload_limit: Positive = 1024
    """Kilobytes per second that others may fetch from this node, all together."""
    max_connections: Positive = 64
    """Peers connected at the same time."""
    max_inbound: Positive = 16
    """Requests of others answered at the same time; more are refused."""


class AsynchronousConfig(Section):
    """Write and train at the same time, in two processes. `swarm-node check` says where it helps."""

    enabled: bool = False
    """Generation in a process of its own, beside training. Needs two cores or devices to itself."""
    max_staleness: Count = 1
    """Updates by which the weights that wrote a text may be older than those that train on it. 0 takes turns: exactly
    the synchronous loop. With more than 1 choose training.objective decoupled."""
    generator_device: str = "auto"
    """Device that writes. auto: a second GPU where there is one, else model.device."""
    trainer_device: str = "auto"
    """Device that trains. auto: model.device."""
    interrupt: bool = False
    """Go on with new weights in the middle of a completion, instead of with the next round: fresher text for the price
    of computing again what was written so far."""


class LearningConfig(Section):
    """What a node learns with and from; shared by one node and by a simulation of many."""

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    round: RoundConfig = RoundConfig()
    training: TrainingConfig = TrainingConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    pool: PoolConfig = PoolConfig()
    defence: DefenceConfig = DefenceConfig()
    asynchronous: AsynchronousConfig = AsynchronousConfig()
    swarm: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")] = "public"
    """Name of the swarm; messages of other swarms are refused."""
    seed: Count = 0
    """Seed of every random choice."""
    threads: Count = 0
    """CPU threads for tensor maths; 0 leaves the choice to torch for one node, and means 1 in a simulation."""


class NodeConfig(LearningConfig):
    """One node."""

    home: Path = Path("~/.swarm-node")
    """Folder that holds identity, checkpoints and logs. Nothing is written anywhere else."""
    max_rounds: Count = 0
    """Stop after this many rounds in all, counting those before a resume; 0 goes on until interrupted."""
    checkpoint: CheckpointConfig = CheckpointConfig()
    validation: ValidationConfig = ValidationConfig()
    network: NetworkConfig = NetworkConfig()


class BootstrapConfig(Section):
    """An entry and relay node: it helps others find and reach each other, and trains nothing."""

    home: Path = Path("~/.swarm-node")
    """Folder that holds identity and known peers."""
    port: Annotated[int, Field(ge=0, le=65535)] = 31330
    """TCP and UDP port to listen on; others have to be able to reach it. 0 takes a free one."""
    host: str = "0.0.0.0"  # noqa: S104 - others are meant to connect
    """Address to listen on."""
    announce: tuple[str, ...] = ()
    """Addresses to tell others, as multiaddrs, where the node cannot see them itself (a forwarded port)."""
    peers: tuple[str, ...] = ()
    """Other entry nodes as full multiaddrs, so that they know of each other (repeat it, or give several)."""
    backend: Literal["hivemind", "libp2p"] = "hivemind"
    """Library that carries the messages."""
    swarm: Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]{1,64}$")] = "public"
    """Name of the swarm."""
    max_connections: Positive = 512
    """Peers connected at the same time."""
    upload_limit: Positive = 4096
    """Kilobytes per second that others may fetch from this node, all together."""


class AskConfig(Section):
    """Which running node to ask."""

    home: Path = Path("~/.swarm-node")
    """Its home folder."""
    json_output: bool = False
    """Print one JSON object (also: --json)."""


class FaultsConfig(Section):
    loss: Share = 0.0
    """Probability that a message to one receiver is lost."""
    delay: Count = 0
    """Rounds between publishing and arrival."""
    die: tuple[str, ...] = ()
    """Nodes that die, as NODE@ROUND, e.g. 3@40."""
    join: tuple[str, ...] = ()
    """Nodes that join late, as NODE@ROUND."""
    slow: tuple[str, ...] = ()
    """Nodes that manage only every k-th round, as NODE@k."""


class AttackConfig(Section):
    """Hostile nodes of a simulation. They know all answers and send nothing but what the attack is."""

    kind: Literal["none", "stealth", "context", "equation", "length", "forge", "flood", "lies", "sybil"] = "none"
    """stealth: right answers with a sign that scores nothing; context: with a phrase that has nothing to do with it;
    equation: with a wrong equation; length: with much white space; forge: texts that trick scorers; flood: stealth, ten
    times as many groups; lies: garbage, replays and messages that break a rule; sybil: stealth, new identities."""
    share: Share = 0.25
    """Share of the nodes that is hostile: the last ones."""
    nodes: tuple[int, ...] = ()
    """The hostile nodes by number, instead of a share."""
    payload: str = ""
    """Text of the payload; empty takes the kind's own."""
    clean: Share = 0.0
    """Share of the hostile groups without the payload: an attacker that hides."""


class SimulationConfig(LearningConfig):
    """Many nodes in one experiment."""

    nodes: Positive = 8
    """Nodes of the swarm, each with a policy of its own."""
    arms: tuple[str, ...] = ("8/0", "6/2", "4/4", "2/6")
    """Local/external groups per round; the first arm is what gains are compared with."""
    rounds: Positive = 150
    """Rounds of every arm and seed."""
    seeds: Positive = 1
    """Repetitions of every arm, with seeds seed, seed+1, ..."""
    out: Path = Path("runs/simulation")
    """Report folder: report.json, rewards.png, manifest.json, events.jsonl."""
    resume: bool = False
    """Go on with an interrupted run in the same folder: finished arm/seed pairs are kept."""
    overwrite: bool = False
    """Replace an existing report folder."""
    workers: Count = 0
    """Processes that run arm/seed pairs side by side; 0 takes one per core."""
    faults: FaultsConfig = FaultsConfig()
    attack: AttackConfig = AttackConfig()
    defence: DefenceConfig = DefenceConfig(use=())
    engine: Literal["memory", "process", "docker"] = "memory"
    """memory: all nodes of a cell in one process, deterministic. process, docker: every node a real process or
    container with a real network, at its own pace."""
    image: str = "swarm-node"
    """Image of --engine docker."""
    network: NetworkConfig = NetworkConfig(exchange_seconds=2.0, mdns=False)
    """Of real nodes. Their rounds take a second, not minutes, so they exchange more often."""
    node_backends: tuple[str, ...] = ()
    """Network backends of nodes 0, 1, ... in turn, such as hivemind,libp2p; empty gives every node network.backend."""
    node_models: tuple[str, ...] = ()
    """Models of nodes 0, 1, ... in turn, for a heterogeneous swarm; empty gives every node model.name."""
    node_tasks: tuple[str, ...] = ()
    """Tasks of nodes 0, 1, ... in turn, each a comma-separated list in quotes; empty gives every node the same."""
    node_devices: tuple[str, ...] = ()
    """Devices of nodes 0, 1, ... in turn."""


class AttackSimulationConfig(SimulationConfig):
    """What hostile nodes achieve: a simulation with an attack."""

    arms: tuple[str, ...] = ("8/0", "4/4")
    rounds: Positive = 60
    out: Path = Path("runs/attack")
    defence: DefenceConfig = DefenceConfig()
    attack: AttackConfig = AttackConfig(kind="stealth")


class EvaluationConfig(Section):
    """Accuracy of a model on held-out questions."""

    model: ModelConfig = ModelConfig()
    generation: GenerationConfig = GenerationConfig()
    tasks: tuple[str, ...] = ()
    """Tasks as dataset/config. Empty: the nine tasks the starters know."""
    questions: Positive = 100
    """Held-out questions per task."""
    puzzles: Path | None = None
    """JSON file of puzzles (prompt, solution) that the task temporal_clue/published asks, all of them once."""
    json_output: bool = False
    """Print one JSON object instead of the table (also: --json)."""
