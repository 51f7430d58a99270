"""Replaces `docker compose` where no engine runs: starts the services of a compose file as
processes in this network.

    python docker/processes.py compose up --detach      # what `docker` is to check_public_swarm.py

`docker-compose config` reads the file and `.env`. Paths of mounts in commands are replaced by what
is mounted; volumes lie in `volumes`. Nothing is confined or restarted. A service without its
program is left out, with a message.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from shutil import which
from typing import Any

import yaml


def main(words: list[str]) -> None:
    said = subprocess.run(
        [which("docker-compose") or "docker-compose", "config"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    services = {
        name: each
        for name, each in yaml.safe_load(said)["services"].items()
        if "profiles" not in each
    }
    match words:
        case ["compose", "config", "--quiet"]:
            pass
        case ["compose", "up", "--detach"]:
            for name, service in services.items():
                start(name, service)
        case ["compose", "exec", name, *command]:
            os.execvpe(command[0], command, placed(services[name])[1])  # noqa: S606
        case _:
            raise SystemExit(f"not known here: docker {' '.join(words)}")


def start(name: str, service: dict[str, Any]) -> None:
    program = service["image"].rpartition("/")[2]
    if which(program) is None:
        sys.stdout.write(f"left out, as {program} is not installed: {name}\n")
        return
    line, variables = placed(service)
    line = line if "entrypoint" in service else [program, *line]
    with Path(f"{name}.log").open("ab") as log:
        subprocess.Popen(
            line,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def placed(service: dict[str, Any]) -> tuple[list[str], dict[str, str]]:
    """The command line of a service, entry point first, and its environment variables."""
    mounts = dict[str, str]()
    for source, target, *_ in (each.split(":") for each in service["volumes"]):
        place = Path(source) if "/" in source else Path("volumes", source)
        place.exists() or place.mkdir(parents=True)
        mounts[target] = str(place.absolute())
    inside = re.compile("|".join(map(re.escape, sorted(mounts, key=len, reverse=True))))
    words = [*service.get("entrypoint", ()), *service.get("command", ())]
    line = [inside.sub(lambda found: mounts[found[0]], word).replace("$$", "$") for word in words]
    return line, {
        **os.environ,
        **service.get("environment", {}),
        "SWARM_NODE_HOME": mounts.get("/data", ""),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
