"""The commands `simulate` and `view plot`, in the list of commands."""

from swarm_node.commands.command import Entry, Purpose

SIMULATE = Entry(
    "swarm_node.extensions.simulation.main:SIMULATE",
    "[CONFIG.toml] [--flags]",
    "many nodes here: what does sharing bring?",
    Purpose.TRY,
    lasting=True,
)
PLOT = Entry(
    "swarm_node.extensions.simulation.plot_command:PLOT",
    "RUN ... [--out FOLDER]",
    "figures of simulations, as PNG and SVG",
    Purpose.LOOK,
)
