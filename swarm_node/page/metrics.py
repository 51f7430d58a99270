"""/metrics for Prometheus: sums over the events of a node, and what the node answers now.

Every metric of a round's report is here by its name. Counters of events are sums over events.jsonl,
so they go on when node or page restart, and their increments are those of the events.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from swarm_node.page.node import SUMMED, NodeWatch
from swarm_node.page.page import Page
from swarm_node.page.public import present
from swarm_node.page.sight import EVERYTHING, Sight
from swarm_node.rollouts.groups import METRICS

CONTENT_TYPE = CONTENT_TYPE_LATEST
STATES = ("starting", "healthy", "resting", "unhealthy")  # of commands.status
COUNTERS = {  # of NodeWatch.totals, besides the metrics that are sums
    "rounds": "Rounds that the node has done",
    "external_groups": "External groups trained on",
    "checkpoints": "Checkpoints written",
    "validations": "Validations done",
    "warnings": "Warnings that the node gave",
    "starts": "How often the node was started",
}


def exposition(page: Page, status: Mapping[str, Any], sight: Sight = EVERYTHING) -> bytes:
    """The body of the answer, as far as the viewer's `sight` goes. `status`: what the node answers;
    without a role where it does not answer.
    """
    viewers = GaugeMetricFamily(
        "swarm_node_page_viewers", "Browsers that look at this page", value=page.viewers
    )
    return generate_latest(
        _Now([*_of_events(page.node, sight), *_of_status(status, sight), viewers])
    )


@dataclass
class _Now(Collector):
    families: list[Metric]

    def collect(self) -> Iterator[Metric]:
        return iter(self.families)


def help_of(name: str) -> str:
    """What a metric is, and its unit."""
    metric = METRICS[name]
    return f"{metric.meaning} ({metric.unit})" if metric.unit else metric.meaning


def _of_events(node: NodeWatch, sight: Sight) -> Iterator[Metric]:
    for name, text in [*COUNTERS.items(), *((name, help_of(name)) for name in SUMMED)]:
        yield CounterMetricFamily(f"swarm_node_{name}", text, value=node.totals[name])
    yield _counted(
        "phase_seconds", "Seconds of wall clock by phase of a round", "phase", node.seconds
    )
    reasons = _summed(node.skipped, sight.reason)
    yield _counted("skipped_groups", "Questions and groups skipped, by reason", "reason", reasons)
    if not node.last:
        return
    figures = {**node.last["step"], **node.last}
    for name in figures.keys() & METRICS.keys() - set(SUMMED):
        yield GaugeMetricFamily(
            f"swarm_node_{name}", f"{help_of(name)}, in the last round", value=figures[name]
        )
    yield GaugeMetricFamily("swarm_node_round", "Number of the last round", value=figures["round"])
    tasks = GaugeMetricFamily(
        "swarm_node_task_reward", "Reward by task in the last round, 0 to 1", labels=["task"]
    )
    by_name: dict[str, list[float]] = {}
    for task, reward in figures["reward_by_task"].items():
        by_name.setdefault(sight.task(task), []).append(reward)
    for name, rewards in by_name.items():
        tasks.add_metric([name], sum(rewards) / len(rewards))
    yield tasks
    if node.validated is not None:
        yield GaugeMetricFamily(
            "swarm_node_validation_reward",
            "Mean reward in the last validation, 0 to 1",
            value=node.validated,
        )


def _of_status(status: Mapping[str, Any], sight: Sight) -> Iterator[Metric]:
    answers = "role" in status
    yield GaugeMetricFamily("swarm_node_up", "Whether the node runs and answers", value=answers)
    yield GaugeMetricFamily(
        "swarm_node_healthy", "Whether the node has no problems", value=bool(status.get("healthy"))
    )
    if not answers:
        return
    states = GaugeMetricFamily(
        "swarm_node_state", "1 for the state that the node is in", labels=["state"]
    )
    for state in STATES:
        states.add_metric([state], state == status.get("state"))
    yield states
    network, training, used = (status.get(name, {}) for name in ("network", "training", "used"))
    about = {"role": status["role"], "peer_id": status["peer_id"], "version": version("textswarm")}
    about |= {
        name: str(network[name])
        for name in ("swarm", "protocol", "backend", "reachability")
        if name in network
    }
    yield InfoMetricFamily(
        "swarm_node", "Role, identity and version of the node", value=sight.about(about)
    )
    for family, name, part, key, text in (
        (
            GaugeMetricFamily,
            "round_age_seconds",
            training,
            "seconds_since",
            "Seconds since the last round ended",
        ),
        (
            GaugeMetricFamily,
            "usual_round_seconds",
            training,
            "round_seconds",
            "Seconds of a round, median of the last 20",
        ),
        (
            CounterMetricFamily,
            "received_groups",
            training,
            "received",
            "External groups that came since the start",
        ),
        (
            CounterMetricFamily,
            "dropped_messages",
            network,
            "dropped",
            "Messages that training was too busy to take",
        ),
        (GaugeMetricFamily, "connected_peers", network, "connected", "Peers connected now"),
        (
            GaugeMetricFamily,
            "relayed_peers",
            network,
            "relayed",
            "Peers that are connected through a relay only",
        ),
        (
            CounterMetricFamily,
            "cpu_seconds",
            used,
            "cpu_seconds",
            "CPU seconds of all processes of the node",
        ),
        (
            GaugeMetricFamily,
            "memory_bytes",
            used,
            "memory_bytes",
            "Resident memory of all processes of the node",
        ),
        (
            GaugeMetricFamily,
            "gpu_memory_bytes",
            used,
            "gpu_bytes",
            "GPU memory that the process that trains holds",
        ),
        (
            CounterMetricFamily,
            "network_restarts",
            network,
            "restarts",
            "Restarts of the library under the network",
        ),
    ):
        idle = status.get("state") == "starting" or "resting" in training
        if key in part and not (key == "seconds_since" and idle):
            yield family(f"swarm_node_{name}", text, value=part[key])
    yield from _of_card(status.get("card", {}), network, sight)
    if "rejected" in training:
        text = "Messages refused since the node started, by reason"
        yield _counted(
            "refused_messages", text, "reason", _summed(training["rejected"], sight.reason)
        )
    if network.get("running"):
        yield GaugeMetricFamily(
            "swarm_node_known_peers",
            "Peers that the node knows",
            value=len(network.get("peers", [])),
        )
        yield from _traffic(network.get("counters", {}))


def _of_card(card: Mapping[str, Any], network: Mapping[str, Any], sight: Sight) -> Iterator[Metric]:
    """The swarm's card and its age, how many peers do not take the newest, and which bootstrap
    nodes are connected.
    """
    for name, key, text in (
        ("number", "number", "Number of the manifest that this node follows"),
        ("issued_timestamp_seconds", "issued", "When the manifest was made, seconds since 1970"),
        ("expires_timestamp_seconds", "expires", "When the manifest ends, seconds since 1970"),
    ):
        if key in card:
            yield GaugeMetricFamily(f"swarm_node_card_{name}", text, value=card[key])
    if card and network.get("running"):
        behind = sum(bool(peer.get("behind")) for peer in present(network))
        yield GaugeMetricFamily(
            "swarm_node_peers_behind", "Peers that have not taken the newest manifest", value=behind
        )
    reached = GaugeMetricFamily(
        "swarm_node_bootstrap_reachable",
        "1 for a bootstrap node that is connected",
        labels=["peer"],
    )
    given = [node for node in network.get("bootstrap_nodes", ()) if node.get("given")]
    for number, node in enumerate(given, 1):
        reached.add_metric([sight.peer(node["peer"], number)], node["state"] == "connected")
    yield reached


def _traffic(counters: Mapping[str, int]) -> Iterator[Metric]:
    traffic = CounterMetricFamily(
        "swarm_node_network_bytes",
        "Bytes of requests and replies",
        labels=["protocol", "direction"],
    )
    others: dict[str, int] = {}
    for name, count in sorted(counters.items()):
        protocol, middle, direction = name.rpartition(" bytes ")
        if middle and direction in ("in", "out"):
            traffic.add_metric([protocol, direction], count)
        else:
            others[name] = count
    yield traffic
    yield _counted("network_events", "What happened in the network, by name", "event", others)


def _summed(counts: Mapping[str, float], shown: Callable[[str], str]) -> dict[str, float]:
    """The counts by what is shown of their names."""
    found: dict[str, float] = {}
    for name, count in counts.items():
        found[shown(name)] = found.get(shown(name), 0) + count
    return found


def _counted(name: str, text: str, label: str, counts: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"swarm_node_{name}", text, labels=[label])
    for key, count in sorted(counts.items()):
        family.add_metric([key], count)
    return family
