"""The options of `contribute`."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from swarm_node.settings.model import Stops
from swarm_node.settings.network import NetworkConfig
from swarm_node.settings.page import LISTEN
from swarm_node.settings.programs import WithQuestions
from swarm_node.settings.questions import (
    DatasetConfig,
    EnvironmentConfig,
    TasksetConfig,
    TemporalClueConfig,
)
from swarm_node.settings.secret import SecretUrl
from swarm_node.settings.sections import Count, Grants, Listening, Positive, SwarmName, json_object


class ContributeConfig(WithQuestions):
    """A node that shares completions of a model behind an API, or answers of a person, and does not
    train.
    """

    from_home: ClassVar[frozenset[str]] = frozenset({"swarm"})
    api: SecretUrl = SecretUrl("")
    """Base address of an OpenAI-compatible server, such as http://127.0.0.1:11434/v1 (Ollama,
    llama.cpp, vLLM, LiteLLM, or a provider). A user and password in it are never shown.
    """
    model: Annotated[str, Grants("a model")] = ""
    """Name of the model on that server."""
    key_file: Path | None = None
    """File whose first line is the key for the server. Without it, the key is read from the
    variable SWARM_NODE_API_KEY.
    """
    human: bool = False
    """Answer yourself, in a browser, in place of a model. The address is printed at the start."""
    listen: Listening = LISTEN
    """With human: HOST:PORT of the page on which you answer. Port 0 takes any free port, and so
    does the default if its port is in use.
    """
    names: Annotated[tuple[str, ...], Grants("names by which a page is reached")] = ()
    """With human: host names under which the page can be reached, for example behind a proxy. IP
    addresses and localhost always work.
    """
    samples: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt. With human: the most answers to one question."""
    max_tokens: Positive = 512
    """Tokens after which a completion is cut off."""
    temperature: Annotated[float, Field(ge=0.0)] = 1.0
    """Sampling temperature. Completions that are all the same are never shared."""
    stop: Stops = ()
    """Strings that end a completion; the completion does not include them. \\n and \\t stand for a
    new line and a tab.
    """
    thinking: bool = True
    """Whether the model can think before it answers. If not, the request contains the fields for
    this of Ollama, vLLM and llama.cpp.
    """
    extra_body: Annotated[str, AfterValidator(json_object), Grants("a request's content")] = ""
    """More fields for each request, as a JSON object, such as '{"top_p": 0.9}'. null removes a
    field.
    """
    timeout: Annotated[float, Field(gt=0.0)] = 120.0
    """Seconds that one request may take, including the connection and the headers."""
    requests_per_minute: Positive = 60
    """Largest number of requests in a minute."""
    tokens_per_minute: Count = 200_000
    """Tokens, of prompts and completions together, that can be used in a minute. 0: no limit. A
    single request that could use more is sent alone.
    """
    total_requests: Count = 20_000
    """Largest number of requests in total, over all starts. Then the contributor ends. 0: no limit.
    """
    total_tokens: Count = 10_000_000
    """Tokens that can be used in total, over all starts. Then the contributor ends. 0: no limit."""
    questions: Annotated[int, Field(ge=1, le=256)] = 4
    """Number of questions per round. Each makes one group, which is published if its completions
    differ in reward. With human it is 1.
    """
    round_seconds: Annotated[float, Field(ge=0.0)] = 5.0
    """Seconds that a round takes at least."""
    max_rounds: Count = 0
    """Stop after this many rounds. 0: continue until interrupted."""
    home: Path = Path("~/.swarm-node/contributor")
    """Home folder, for the identity, the budget and the logs. Nothing is written anywhere else."""
    swarm: SwarmName = "public"
    """Name of the swarm."""
    environment: EnvironmentConfig = EnvironmentConfig()
    network: NetworkConfig = NetworkConfig()
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    temporal_clue: TemporalClueConfig = TemporalClueConfig()
