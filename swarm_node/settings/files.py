"""Reads options from a file of TOML, which may be anything: a folder, a link, a binary."""

import sys
from pathlib import Path
from typing import Any

from swarm_node.common.errors import UserError, printable, reason_of
from swarm_node.common.files import read_plain
from swarm_node.common.nearest import meant
from swarm_node.common.parsing import parse_toml

MAX_FILE_BYTES = 1024 * 1024


def shipped(file: Path) -> Path:
    """The file, or, where there is none, the shipped configuration of this name. UserError for a
    name close to one.
    """
    if file.exists():
        return file
    # Of a checkout, of an installation
    folders = Path(__file__).parents[2], Path(sys.prefix, "share", "swarm-node")
    by_name = {path.stem: path for folder in folders for path in folder.glob("configs/*.toml")}
    near = meant(str(file), by_name)
    if near and near != str(file):
        raise UserError(f"config file {file} does not exist; did you mean {near}?")
    return by_name.get(str(file), file)


def read_options(file: Path, follow: bool = True) -> dict[str, Any]:
    """Reads a TOML file. UserError if it is missing or not TOML; without `follow` also if it is a
    link.
    """
    try:
        content = read_plain(file.expanduser(), MAX_FILE_BYTES + 1, follow=follow)
        if len(content) > MAX_FILE_BYTES:
            raise UserError(f"config file {file} is larger than {MAX_FILE_BYTES >> 20} MB")
        return parse_toml(content.decode("utf-8-sig"))
    except FileNotFoundError as error:
        raise UserError(
            f"config file {file} does not exist: give the path of one, or the name of a shipped one"
        ) from error
    except OSError as error:
        raise UserError(f"config file {file} cannot be read: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"config file {file} is not TOML: it is not UTF-8, so save it as UTF-8"
        ) from error
    except ValueError as error:  # no TOML, a number of thousands of digits
        text = printable(str(error).partition(";")[0], 120)
        raise UserError(
            f"config file {file} is not TOML: {text}; write texts in quotes, and names "
            "of sections in brackets"
        ) from error
