"""What a page shows, and to whom: the section `page` of a run, and the options of `swarm-node
page`.
"""

from pathlib import Path
from typing import Annotated

from swarm_node.common.errors import UserError
from swarm_node.settings.sections import Alias, BareFlag, Grants, Listening, Section, Text

LISTEN = "127.0.0.1:8420"


class ObservedConfig(Section):
    """A dashboard that shows this run in a browser. It is a process of its own. A bootstrap node's
    dashboard has the public view.
    """

    listen: Annotated[Listening, BareFlag(LISTEN), Alias("--page")] = ""
    """HOST:PORT to listen on. --page without a value takes 127.0.0.1:8420. Empty: no dashboard."""
    names: Annotated[tuple[str, ...], Grants("names by which a page is reached")] = ()
    """Host names under which the dashboard can be reached, for example behind a proxy. IP addresses
    and localhost always work.
    """
    public: Annotated[bool, Grants("a view for everybody")] = False
    """Show the public view at / without the token, as a bootstrap node always does. This view is
    read-only and contains no addresses; everything else needs the token.
    """
    open_metrics: Annotated[bool, Grants("figures for everybody")] = False
    """Answer /metrics without the token. Without it, the answer has no names of nodes, and only the
    names of tasks that the public view can show. With the token it has everything.
    """


class PageConfig(ObservedConfig):
    """Open the dashboard of a node in a browser, by its home folder."""

    folder: Path = Path("~/.swarm-node")
    """The home folder to show. You can name it without the flag: swarm-node page FOLDER."""
    listen: Listening = LISTEN
    """HOST:PORT to listen on. Port 0 takes any free port, and so does the default if its port is in
    use.
    """
    public_tasks: tuple[Text, ...] = ()
    """Tasks of your own that the public view and the open metrics show by name, as they do for
    tasks that come with this program. All other tasks are shown together, without a name.
    """
    with_parent: bool = False
    """End when standard input is closed, which happens when the process that started the dashboard
    ends.
    """


def listening(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, [::1]:PORT or PORT. UserError for anything else."""
    host, _, port = text.rpartition(":")
    try:
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= 65535:
        raise UserError(f"{text} must be HOST:PORT, such as {LISTEN}")
    return host.strip("[]") or "127.0.0.1", number
