"""A user without a home folder, as in a container whose user has no entry and no HOME."""

import os
import sys
from pathlib import Path


def settle() -> None:
    """Where the system knows no home folder of this user, the current folder is one, and a line
    says so. Everything that this process starts finds it in HOME.
    """
    try:
        Path.home()
    except RuntimeError:
        here = os.environ["HOME"] = str(Path.cwd())
        sys.stderr.write(
            f"swarm-node: user {os.getuid()} has no home folder, so ~ is {here}; set HOME for "
            "another\n"
        )
