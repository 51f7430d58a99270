"""The options of `contribute`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from swarm_node.settings import EnvironmentConfig, NetworkConfig, WithObservers, WithQuestions
from swarm_node.settings.secret import SecretUrl
from swarm_node.settings.sections import Count, Positive, SwarmName


class ContributeConfig(WithQuestions, WithObservers):
    """A node that generates and does not train."""

    api: SecretUrl = SecretUrl("")
    """Base address of an OpenAI-compatible server, such as http://127.0.0.1:11434/v1 (Ollama, llama.cpp, vLLM, LiteLLM,
    a provider). User and password in it are shown to nobody."""
    model: str = ""
    """Name of the model there."""
    key_file: Path | None = None
    """File whose first line is the server's key. Else the variable SWARM_NODE_API_KEY."""
    human: bool = False
    """A person answers, in this terminal or on a page, in place of a server."""
    samples: Annotated[int, Field(ge=2, le=64)] = 8
    """Completions per prompt."""
    max_tokens: Positive = 512
    """Tokens a completion may have before it is cut off."""
    temperature: Annotated[float, Field(ge=0.0)] = 1.0
    """Of sampling. Completions that are all alike are never shared."""
    timeout: Annotated[float, Field(gt=0.0)] = 120.0
    """Seconds that one request may take, connection and headers included."""
    requests_per_minute: Positive = 60
    """Requests that may be made in a minute."""
    tokens_per_minute: Count = 200_000
    """Tokens, of prompts and completions, that may be used in a minute; 0 sets no limit. A single request that may take
    more is made alone."""
    tokens_per_day: Count = 0
    """Tokens that may be used in a day (UTC); 0 sets no limit."""
    total_requests: Count = 20_000
    """Requests that may be made in all, over restarts; then the contributor ends. 0 sets no limit."""
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
