"""What several commands do to their arguments before these become a configuration."""

from collections.abc import Sequence


def with_peers(argv: Sequence[str], option: str = "--network.peers") -> list[str]:
    """`--peers A --peers B C` as the one option it stands for."""
    rest: list[str] = []
    peers: list[str] = []
    taking = False
    for argument in argv:
        if argument == "--peers" or argument.startswith("--peers="):
            taking = True
            peers += argument.split("=", 1)[1:]
        elif taking and not argument.startswith("-"):
            peers.append(argument)
        else:
            taking = False
            rest.append(argument)
    return [*rest, option, *peers] if peers else rest


def with_json(argv: Sequence[str]) -> list[str]:
    """`--json` as the option it stands for."""
    return ["--json-output" if argument == "--json" else argument for argument in argv]
