"""What of a round is worth a look, for the ring of samples."""

from collections.abc import Iterator
from pathlib import Path

from swarm_node.common import plugins
from swarm_node.rollouts.groups import ScoredGroup, Selection
from swarm_node.settings import NodeConfig, Section
from swarm_node.telemetry.events import Event, RunStarted, Telemetry, Trained, Warned
from swarm_node.telemetry.samples import Sample, SampleRing

MOST_BYTES = 4 * 1024 * 1024  # of all samples on disk


def samples(home: Path, config: Section, telemetry: Telemetry) -> "SampleWriter | None":
    """None where the option is off, and for commands that train nothing."""
    if not isinstance(config, NodeConfig) or "samples" not in config.observers:
        return None
    return SampleWriter(home, config, telemetry)


class SampleWriter:
    """An observer that keeps samples of what a node trains on."""

    def __init__(self, home: Path, config: NodeConfig, telemetry: Telemetry) -> None:
        self._home, self._config, self._telemetry = home, config, telemetry
        self._ring: SampleRing | None = None

    def take(self, event: Event) -> None:
        """UserError where the rule for advantages, which may be a plug-in, cannot be loaded."""
        match event:
            case RunStarted():
                advantages = plugins.load("advantages", self._config.training.scale_rewards)
                self._ring = SampleRing(self._home, MOST_BYTES, advantages, self._warn)
            case Trained(selection) if self._ring is not None and self._ring.due():
                self._ring.take(selection.generated.round, list(samples_of(selection)))

    def close(self) -> None:
        pass

    def _warn(self, text: str) -> None:
        self._telemetry.emit(Warned(text))


def samples_of(selection: Selection) -> Iterator[Sample]:
    """Every scored group of the round, with what became of it."""
    chosen = {id(group) for group in selection.local}
    for group in selection.generated.groups:
        trained = group.informative and id(group) in chosen
        why = "uninformative" if not group.informative else "not selected"
        yield _sample(group, local=True, why="" if trained else why)
    taken = {(group.author, group.question) for group in selection.external}
    refused = {(each.author, each.question): each.reason for each in selection.refused}
    for group in selection.considered:
        name = (group.author, group.question)
        why = refused.get(name, "not selected" if group.informative else "uninformative")
        yield _sample(group, local=False, why="" if name in taken else why)


def _sample(group: ScoredGroup, *, local: bool, why: str) -> Sample:
    return Sample(
        author=group.author,
        task=f"{group.question.dataset}/{group.question.config_id}",
        prompt=group.prompt,
        completions=[(completion.text, completion.ended) for completion in group.group.completions],
        rewards=group.rewards,
        local=local,
        trained=not why,
        why=why,
    )
