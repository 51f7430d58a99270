"""`swarm-node simulate` and `attack`. Imports no torch: the workers do."""

from swarm_node.settings import AttackSimulationConfig, SimulationConfig
from swarm_node.settings.sources import from_command_line
from swarm_node.simulation.main import simulate


def simulate_command(argv: list[str]) -> None:
    """Writes a report folder, and shows its figures."""
    config = from_command_line(SimulationConfig, argv, "swarm-node simulate")
    simulate(config)


def attack_command(argv: list[str]) -> None:
    """A simulation with hostile nodes; the options it is about have short names."""
    short = {"--kind": "--attack.kind", "--share": "--attack.share", "--defence": "--defence.use"}
    config = from_command_line(AttackSimulationConfig, [short.get(a, a) for a in argv], "swarm-node attack")
    simulate(config)
