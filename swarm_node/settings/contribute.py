"""The options of `contribute`."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from swarm_node.settings.model import Stops
from swarm_node.settings.network import NetworkConfig
from swarm_node.settings.programs import WithQuestions
from swarm_node.settings.questions import (
    DatasetConfig,
    EnvironmentConfig,
    TasksetConfig,
    TemporalClueConfig,
)
from swarm_node.settings.secret import SecretUrl
from swarm_node.settings.sections import Count, Grants, Positive, SwarmName, json_object


class ContributeConfig(WithQuestions):
    """A node that generates and does not train."""

    from_home: ClassVar[frozenset[str]] = frozenset({"swarm"})
    api: SecretUrl = SecretUrl("")
    """Base address of an OpenAI-compatible server, such as http://127.0.0.1:11434/v1 (Ollama,
    llama.cpp, vLLM, LiteLLM, a provider). User and password in it are shown to nobody.
    """
    model: Annotated[str, Grants("a model")] = ""
    """Name of the model there."""
    key_file: Path | None = None
    """File whose first line is the server's key. Else the variable SWARM_NODE_API_KEY."""
    samples: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt."""
    max_tokens: Positive = 512
    """Tokens a completion may have before it is cut off."""
    temperature: Annotated[float, Field(ge=0.0)] = 1.0
    """Temperature of sampling. Completions that are all alike are never shared."""
    stop: Stops = ()
    """Strings that end a completion, which is without them; \\n and \\t are a new line and a
    tab.
    """
    thinking: bool = True
    """Whether the model may think first. If not, the request has the fields for it of Ollama, vLLM
    and llama.cpp.
    """
    extra_body: Annotated[str, AfterValidator(json_object), Grants("a request's content")] = ""
    """More of each request, as a JSON object: '{"top_p": 0.9}'. null takes a field out."""
    timeout: Annotated[float, Field(gt=0.0)] = 120.0
    """Seconds that one request may take, connection and headers included."""
    requests_per_minute: Positive = 60
    """Requests that may be made in a minute."""
    tokens_per_minute: Count = 200_000
    """Tokens, of prompts and completions, that may be used in a minute; 0 sets no limit. A single
    request that may take more is made alone.
    """
    total_requests: Count = 20_000
    """Requests that may be made in all, over restarts; then the contributor ends. 0 sets no
    limit.
    """
    total_tokens: Count = 10_000_000
    """Tokens that may be used in all, over restarts; then the contributor ends. 0 sets no limit."""
    questions: Annotated[int, Field(ge=1, le=256)] = 4
    """Questions per round, each a group if its completions differ in reward."""
    round_seconds: Annotated[float, Field(ge=0.0)] = 5.0
    """Seconds that a round takes at least."""
    max_rounds: Count = 0
    """Stop after this many rounds; 0 goes on until interrupted."""
    home: Path = Path("~/.swarm-node/contributor")
    """Folder that holds identity, budget and logs. Nothing is written anywhere else."""
    swarm: SwarmName = "public"
    """Name of the swarm."""
    environment: EnvironmentConfig = EnvironmentConfig()
    network: NetworkConfig = NetworkConfig()
    dataset: DatasetConfig = DatasetConfig()
    taskset: TasksetConfig = TasksetConfig()
    temporal_clue: TemporalClueConfig = TemporalClueConfig()
