"""The user's lists in the home folder, read again whenever they have changed: a restart would lose minutes of training
while a flood goes on. They are a file, without a command, so that scripts write them and users copy them."""

from pathlib import Path

from swarm_node.network.access import Access, parse

ACCESS_FILE = "access.toml"
MAX_BYTES = 8 * 1024 * 1024  # the lists go to the network process in one frame


class AccessFile:
    """What the file says now. One that cannot be read changes nothing, and is complained about once."""

    def __init__(self, home: Path) -> None:
        self._path = home / ACCESS_FILE
        self._seen: tuple[int, int] | None = None  # when it was written, and its size
        self.access = Access()

    def look(self) -> str:
        """Reads it if it has changed. A line for the user; "" where there is nothing to say."""
        try:
            status = self._path.stat()
        except OSError:
            gone, self._seen, self.access = self._seen is not None, None, Access()
            return f"{ACCESS_FILE} is gone: nobody is blocked" if gone else ""
        if (status.st_mtime_ns, status.st_size) == self._seen:
            return ""
        self._seen = status.st_mtime_ns, status.st_size
        try:
            if status.st_size > MAX_BYTES:
                raise ValueError(f"larger than {MAX_BYTES} bytes")
            self.access = parse(self._path.read_text())
        except (OSError, ValueError) as error:
            return f"{self._path}: {error}; what it said before goes on"
        return f"{ACCESS_FILE} was read"
