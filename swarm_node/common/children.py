"""What a process that this one starts is told of the user's environment: never their tokens, keys and proxies.

`clean_environment` is for processes that read what strangers send or wrote, and for those that need nothing;
`without_secrets` for those that compute, which need what the user has set for CUDA, caches and threads.
"""

import os
import re
from collections.abc import Mapping

KEPT_VARIABLES = ("LD_LIBRARY_PATH", "TMPDIR")  # where the interpreter was linked against it; where sockets go
OF_THE_USER = (*KEPT_VARIABLES, "PATH", "HOME", "LANG", "LC_ALL", "TZ")  # for programs that print for a person
SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_?KEY$|_KEY_|AUTH|PROXY$|^(AWS|AZURE|GOOGLE|WANDB|KAGGLE)_",
    re.I,
)


def clean_environment(kept: tuple[str, ...] = KEPT_VARIABLES, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of `kept` that are set, and `more`."""
    return {name: os.environ[name] for name in kept if name in os.environ} | {"PYTHONUTF8": "1", **(more or {})}


def without_secrets(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """All variables but those whose names say that they hold a secret, and `more`."""
    return {name: value for name, value in os.environ.items() if not SECRET.search(name)} | dict(more or {})
