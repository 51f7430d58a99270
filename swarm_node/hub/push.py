"""`swarm-node model push`: a trained model to the Hugging Face hub, private unless told
otherwise.
"""

import tempfile
from pathlib import Path

from swarm_node.common.command import Command
from swarm_node.common.errors import UserError, first_line
from swarm_node.common.terminal import progress_bars
from swarm_node.hub.export import TakenConfig, export, newest
from swarm_node.settings.command_line import from_command_line

PAGE = """\
usage: swarm-node model push NAME/MODEL [--flags]

Uploads a trained model to the Hugging Face hub, with its model card. The token
is that of `hf auth login`, or the variable HF_TOKEN. The variable HF_ENDPOINT
names another hub.

  NAME/MODEL      the repository, which is created if it does not exist
  --public        let everybody see it (default: only you)
  --home FOLDER   home folder of the node that trained it (~/.swarm-node)
  --best          take the best validation instead of the newest checkpoint
  --merge         merge LoRA adapters into the weights"""


class PushConfig(TakenConfig):
    """A trained model to the Hugging Face hub."""

    repo: str = ""
    """The repository, NAME/MODEL; it is made if it is not there."""
    public: bool = False
    """Everybody may see it. A repository that is there already keeps what it is."""


def upload(folder: Path, repo: str, public: bool, message: str) -> str:
    """Uploads the folder, and returns the model's address on the hub. UserError: one line, without
    the token.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import ENDPOINT, HF_HUB_OFFLINE
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    from swarm_node.common.http import obey_in_hub
    from swarm_node.common.proxies import through

    obey_in_hub()
    if HF_HUB_OFFLINE:
        raise UserError(f"{repo} cannot be pushed: HF_HUB_OFFLINE is set; unset it")
    hub = HfApi()
    try:
        made = hub.create_repo(repo, private=not public, exist_ok=True)
        with progress_bars():
            hub.upload_folder(repo_id=made.repo_id, folder_path=folder, commit_message=message)
    except HFValidationError as error:
        raise UserError(
            f"{repo!r} is not a name of a repository: {_line(error)}; write NAME/MODEL, with "
            "letters, "
            "digits, dots and dashes"
        ) from error
    except HfHubHTTPError as error:
        raise UserError(
            f"the hub refused {repo}: {_line(error)}; hf auth login, or set HF_TOKEN, to a token "
            "that may write"
        ) from error
    except Exception as error:  # whatever goes wrong in the network
        raise UserError(
            f"{repo} could not be uploaded{through(ENDPOINT)}: {_line(error)}; try again when the "
            "hub is in reach"
        ) from error
    return str(made)


def push(home: Path, checkpoint: Path, repo: str, public: bool = False, merge: bool = False) -> str:
    """Export to a temporary folder, and upload it. Returns the model's address on the hub.
    UserError.
    """
    with tempfile.TemporaryDirectory(prefix="swarm-node-push-") as name:
        folder = Path(name) / "model"
        export(home, checkpoint, folder, merge)
        return upload(folder, repo, public, f"After {int(checkpoint.name)} rounds")


def _line(error: Exception) -> str:
    """The first line of a library's error, without the token: some servers repeat the ends of
    it.
    """
    from huggingface_hub import get_token

    return first_line(error, secrets=filter(None, [get_token()]))


def command(argv: list[str]) -> None:
    """Prints the model's address. A first argument without dashes is the repository."""
    config = from_command_line(PushConfig, argv, "swarm-node model push", first="repo")
    if not config.repo:
        raise UserError("name the repository: swarm-node model push NAME/MODEL")
    checkpoint = newest(config.home, config.best)
    print(push(config.home, checkpoint, config.repo, config.public, config.merge))


PUSH = Command(PushConfig, PAGE, command)
