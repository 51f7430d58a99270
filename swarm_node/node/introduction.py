"""What a node says of itself before its first round."""

from pathlib import Path

from swarm_node.environments.registry import leaving
from swarm_node.node.round import Node
from swarm_node.policy.plan import Plan, amount
from swarm_node.policy.policy import Policy
from swarm_node.scoring import sandbox
from swarm_node.settings import NodeConfig
from swarm_node.telemetry.events import Notice, Telemetry, Warned


def warn(telemetry: Telemetry, config: NodeConfig, plan: Plan | None) -> None:
    """Says what the user should know before the first round."""
    if plan and not plan.fits:
        telemetry.emit(Warned(plan.lines()[0]))
    if told := leaving(config):
        telemetry.emit(Notice(told))
    if not all((layers := sandbox.layers()).values()):
        telemetry.emit(Warned(sandbox.describe(layers)))


def facts(policy: Policy, node: Node, plan: Plan | None) -> dict[str, str]:
    """The model, where it runs and how, as the first lines of a run and its manifest show it."""
    parameters = sum(p.numel() for p in policy.model.parameters())
    packing = getattr(node.trainer, "packing", None)
    decoder = getattr(node.generator, "decoder_name", "")
    return {
        "model": f"{Path(policy.name).name} ({parameters / 1e6:.1f} M)",
        "device": str(policy.device),
        "rows": packing.value if packing else "padded",
        "decoder": decoder,
        "linear layers": policy.arithmetic,
        "memory": f"about {amount(plan.total)} of {amount(plan.room)}" if plan else "",
    }
