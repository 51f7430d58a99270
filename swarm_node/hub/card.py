"""The card of an exported model: its base model, its questions, and how its reward rose. Facts of
the home only.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from swarm_node.common.files import read_plain
from swarm_node.common.parsing import read_json
from swarm_node.environments.kinds import UnknownTaskError, find
from swarm_node.environments.registry import kinds
from swarm_node.policy.named import (
    KNOWN,
    OfHub,
    described,
    folder,
    is_hub_name,
    is_of_hub,
    licence_on,
)
from swarm_node.telemetry.jsonlines import read_jsonlines

MANIFEST_BYTES, README_BYTES = 1 << 24, 1 << 20  # read at most
POINTS = 10  # rows of a curve, at most
UNKNOWN = "unknown"
MADE_WITH = ("swarm-node", "reasoning-gym", "torch", "transformers", "peft", "python")
EXTERNAL = (
    "External completions are text that this node scored itself, and their authors are not known."
)
APART = (
    "the base model is on no hub: load it, then the adapters by "
    "`peft.PeftModel.from_pretrained(base, FOLDER)`"
)


@dataclass
class Story:
    """What a home knows of its training, for the card."""

    model: str
    licence: str
    rounds: int
    given: str = ""  # the model, as the configuration names it
    described: str = ""  # what the model is, its licence and its size
    swarm: str = ""
    revision: str = ""  # of a hub model: its commit
    adapters: int = 0  # rank, 0 where all weights were trained
    rewards: list[tuple[int, float]] = field(default_factory=list)  # (round, mean reward)
    validated: list[tuple[int, float]] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    data: str = ""  # the name of the file of questions, without its folder, which is private
    environments: list[str] = field(default_factory=list)
    external: int = 0  # informative external groups trained on
    # Of the run that was started last, as its manifest has them
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # of that run, by package
    merged: bool = False  # whether adapters are part of the weights

    @property
    def apart(self) -> bool:
        """Whether it needs a base model that others do not find by its name."""
        return bool(self.adapters) and not self.merged and not self.of_hub

    @property
    def of_hub(self) -> bool:
        """Whether others find the base model by its name."""
        like_one = is_hub_name(self.model) and "/" in self.model
        return like_one and (bool(self.revision) or not folder(self.model).exists())

    @property
    def base(self) -> str:
        """The name of the base model for others: of a folder on this machine, only the last
        part.
        """
        return self.model if self.of_hub else folder(self.model).absolute().name


def story(home: Path, rounds: int, model: Mapping[str, Any]) -> Story:
    """The story of a home after `rounds` rounds of this model. What is missing there is left
    out.
    """
    name = str(model["name"])
    told = Story(name, licence(name), rounds, adapters=int(model["lora_rank"]))
    told.given, told.revision = told.model, str(model.get("revision", ""))
    known = KNOWN.get(told.model)
    told.described = described(told.model)
    # Else its weights are those of a package, which others do not find by that name
    if isinstance(known, OfHub) and is_of_hub(folder(told.model)):
        told.model, told.revision = known.repository, known.revision
    events = home / "events.jsonl"
    for event in read_jsonlines(events) if events.exists() else ():
        # A line that makes no sense costs only itself: the home may be a stranger's
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            _tell(told, event, rounds)
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        manifest = read_json(home / "manifest.json", MANIFEST_BYTES)
        settings = {str(key): value for key, value in manifest["config"].items()}
        versions = manifest.get("versions", {})
        told.versions = {str(package): str(version) for package, version in versions.items()}
        told.swarm = str(settings["swarm"])
        told.data = Path(settings.get("dataset", {}).get("file", "")).name
        sections = [name for name, values in settings.items() if isinstance(values, Mapping)]
        told.settings = {name: settings[name] for name in sections}
    told.environments = sorted({_environment(task, told.settings) for task in told.tasks})
    return told


def _tell(told: Story, event: Mapping[str, Any], rounds: int) -> None:
    """Adds what an event says. Raises what `story` drops, where it makes no sense."""
    if event.get("event") == "RoundDone" and event["report"]["round"] < rounds:
        report = event["report"]
        tasks = {*told.tasks, *map(str, report.get("reward_by_task", {}))}
        external = int(report.get("external_informative", 0))
        if report["reward"] is not None:
            told.rewards.append((int(report["round"]), float(report["reward"])))
        told.external, told.tasks = told.external + external, sorted(tasks)
    elif event.get("event") == "Validated" and event["round"] <= rounds:
        told.validated.append((int(event["round"]), float(event["reward"])))


def _environment(task: str, settings: Mapping[str, Any]) -> str:
    """The name of the task's environment: one that ships, else the class names of the user's own;
    else UNKNOWN.
    """
    try:
        return find(task, kinds(())).name
    except UnknownTaskError:
        used = settings.get("environment", {}).get("use") or ()
        classes = [str(name).rpartition(":")[2] for name in used]
        return ", ".join(classes) or UNKNOWN


def licence(model: str) -> str:
    """The licence on the base model's own card, in its folder, in the cache or on the hub; else
    UNKNOWN.
    """
    from huggingface_hub import hf_hub_download

    from swarm_node.common.http import obey_in_hub

    if model in KNOWN:
        return KNOWN[model].licence.lower()
    obey_in_hub()
    place = folder(model)
    try:
        page = place / "README.md" if place.is_dir() else Path(hf_hub_download(model, "README.md"))
        text = read_plain(page, README_BYTES).decode(errors="replace")
    except Exception:  # noqa: BLE001  no network, no card or no such model: the licence is unknown
        return UNKNOWN
    return licence_on(text) or UNKNOWN


def card(told: Story) -> str:
    """The text of the card: a head of metadata for the hub, and a page for people."""
    name, adapters = told.base, told.adapters and not told.merged
    library = "peft" if adapters else "transformers"
    head = [
        "---",
        f"library_name: {library}",
        "pipeline_tag: text-generation",
        "tags: [swarm-node, grpo]",
    ]
    if told.of_hub:
        head += [
            f"base_model: {name}",
            f"base_model_relation: {'adapter' if adapters else 'finetune'}",
        ]
    head += [f"license: {told.licence}" if told.licence != UNKNOWN else "license: other", "---"]
    how = f"LoRA adapters of rank {told.adapters}" if told.adapters else "all weights"
    how += ", merged into the weights" if told.merged else ""
    of = "local and external" if told.external else "local"
    external = (
        f"{told.external} informative external groups were trained on"
        if told.external
        else "trained alone"
    )
    rate = told.settings.get("training", {}).get("learning_rate", UNKNOWN)
    longest = told.settings.get("generation", {}).get("max_completion_length", UNKNOWN)
    versions = (
        f"{package} {told.versions[package]}" for package in MADE_WITH if package in told.versions
    )
    revision = f" at {told.revision}" if told.revision else ""
    data = f" of {told.data}" if told.data else ""
    lines = [*head, f"# {name}, trained by a swarm", ""]
    lines.append(f"- base model: {name}{revision}; its licence: {told.licence}")
    if told.given in KNOWN:
        lines.append(f"- that is {told.described}")
    lines += [
        f"- trained: {how}, by GRPO on {of} completions, {told.rounds} rounds",
        f"- learning rate {rate}, completions of at most {longest} tokens",
        f"- swarm: {told.swarm or UNKNOWN}; {external}",
        f"- questions: {', '.join(told.tasks) or UNKNOWN}{data}",
        f"- environment: {', '.join(told.environments) or UNKNOWN}",
        f"- made with: {', '.join(versions) or UNKNOWN}",
    ]
    if told.apart:
        lines.append(f"- {APART}")
    lines.append("")
    lines += _curve("Mean reward of local completions", told.rewards)
    lines += _curve("Reward on held-out questions", told.validated)
    if told.external:
        lines.append(EXTERNAL)
    lines.append("Measure the model on your own task before you rely on it.")
    return "\n".join(lines) + "\n"


def _curve(title: str, points: Sequence[tuple[int, float]]) -> list[str]:
    """The lines of a table: means over tenths of the run."""
    if not points:
        return []
    size = max(1, -(-len(points) // POINTS))
    parts = [points[k : k + size] for k in range(0, len(points), size)]
    rows: list[str] = []
    for part in parts:
        (first, _), (last, _) = part[0], part[-1]
        average = fmean(value for _, value in part)
        rows.append(f"| {first} to {last} | {average:.3f} |")
    return [f"{title}:", "", "| rounds | mean |", "|---|---|", *rows, ""]
