"""What a page shows, and to whom: the section `page` of a run, and the options of `swarm-node
page`.
"""

from pathlib import Path
from typing import Annotated

from swarm_node.common.errors import UserError
from swarm_node.settings.sections import Alias, Alone, Grants, Listening, Section, Text

LISTEN = "127.0.0.1:8420"


class ObservedConfig(Section):
    """A page that shows this run in a browser, a process of its own. That of a bootstrap node has
    the public view.
    """

    listen: Annotated[Listening, Alone(LISTEN), Alias("--page")] = ""
    """HOST:PORT to listen on; --page alone takes 127.0.0.1:8420. Empty: no page."""
    names: Annotated[tuple[str, ...], Grants("names by which a page is reached")] = ()
    """Host names by which the page is reached, for instance behind a proxy. Numbers and localhost
    always work.
    """
    public: Annotated[bool, Grants("a view for everybody")] = False
    """Show the public view at / without the token, as a bootstrap node always does. It is read-only
    and has no addresses; all else needs the token.
    """
    open_metrics: Annotated[bool, Grants("figures for everybody")] = False
    """Answer /metrics without the token: then without names of nodes, and with those names of
    tasks only that the public view may show. With the token it has all.
    """


class PageConfig(ObservedConfig):
    """A node in a browser, by its home."""

    folder: Path = Path("~/.swarm-node")
    """What to show; it can be named without the flag: swarm-node page FOLDER."""
    listen: Listening = LISTEN
    """HOST:PORT to listen on. Port 0 takes a free one; so does the default where its port is
    taken.
    """
    public_tasks: tuple[Text, ...] = ()
    """Tasks of your own that the public view and open metrics show by name, as they do those that
    come with this program. All others stand together, without a name.
    """
    with_parent: bool = False
    """End when standard input is closed, as it is when the process that started the page has
    gone.
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
