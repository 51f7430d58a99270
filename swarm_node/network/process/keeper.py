"""Keeps in the home folder what the network must remember, and reads the user's lists there.

It runs beside the network and not in it: the process that talks to strangers has no access to the home.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from swarm_node.common.files import write_bytes
from swarm_node.network.access import Access
from swarm_node.network.process import cache
from swarm_node.network.process.access_file import AccessFile
from swarm_node.network.process.messages import Memory

ADDRESSES_FILE = "addresses"  # own full multiaddrs, one a line, for scripts that want to dial this node
SAVE_SECONDS = 30.0
LISTS_SECONDS = 2.0  # between two looks whether the user's lists have changed


class Keeper:
    """Of one home and swarm. `run` for as long as the network lives."""

    def __init__(
        self,
        home: Path,
        swarm: str,
        memory: Callable[[], Memory],
        allow: Callable[[Access], None],
        say: Callable[[str, bool], None],
    ) -> None:
        """`memory` is what is to be saved; `allow` takes the lists when they have changed; `say` a line for the user,
        and whether it is a warning."""
        self._home, self._swarm = home, swarm
        self._memory, self._allow, self._say = memory, allow, say
        self._lists = AccessFile(home)
        self._unsaved = False  # whether the last attempt to save failed

    def look(self) -> None:
        """At the lists, which may change at any time."""
        if said := self._lists.look():
            self._say(f"network: {said}", False)
            self._allow(self._lists.access)

    def addresses(self, addresses: Sequence[str]) -> None:
        """Writes this node's addresses down, where that is possible: a convenience."""
        with suppress(OSError):
            write_bytes(self._home / ADDRESSES_FILE, "".join(f"{address}\n" for address in addresses).encode())

    async def run(self) -> None:
        """Until it is cancelled; saves a last time then."""
        try:
            while True:
                for _ in range(round(SAVE_SECONDS / LISTS_SECONDS)):
                    self.look()
                    await asyncio.sleep(LISTS_SECONDS)
                self._save()
        finally:
            self._save()

    def _save(self) -> None:
        try:
            cache.save(self._home, self._swarm, self._memory())
            self._unsaved = False
        except OSError as error:
            if not self._unsaved:
                self._say(f"network: peers cannot be saved in {self._home}: {error.strerror}; make room there", True)
            self._unsaved = True
