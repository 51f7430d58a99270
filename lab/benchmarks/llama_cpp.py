"""Generation of SmolLM2-135M-Instruct beside llama.cpp: the same weights, prompt ids, float type, threads and lengths.

64 completions are decoded at a time, eight of each of eight prompts; nothing ends early. llama.cpp's server gets all
requests at once, in as many slots, once a request for each completion and once a request for each prompt (`n`), which
shares the prompt's cache; the faster one counts. Both sides write text and the log-prob of each token. A share of the
limit is the time that the products with weights would take at the speed of a plain product, over the time taken.
"""

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from lab.benchmarks import command, common
from swarm_node.extensions.hub import gguf
from swarm_node.generation.generator import BatchGenerator
from swarm_node.policy import named
from swarm_node.policy.loading import load_policy
from swarm_node.policy.policy import Policy
from swarm_node.rollouts.groups import GeneratedGroup
from swarm_node.settings import GenerationConfig, ModelConfig

xllamacpp: Any = import_module("xllamacpp")  # which has no types
NAME, PROMPTS = "smollm2-135m", 8
Work = Callable[[], object]


def ours(policy: Policy, texts: list[str], new: int) -> Work:
    policy.eos_ids = frozenset()  # nothing ends early
    made = BatchGenerator(policy, GenerationConfig(max_completion_length=new), decoder="native")
    streams = count()

    def work() -> None:
        groups = made.generate(texts, common.GROUP_SIZE, f"benchmark/{next(streams)}")
        lengths = [len(one.ids) for group in groups if isinstance(group, GeneratedGroup) for one in group.tokens]
        assert lengths == [new] * PROMPTS * common.GROUP_SIZE, lengths

    return work


def server(file: Path, prompt: int, new: int, shared: bool) -> Any:
    """A server of llama.cpp with one thread and a slot for each completion."""
    params, slots = xllamacpp.CommonParams(), PROMPTS * common.GROUP_SIZE
    params.model.path, params.verbosity, params.n_parallel = str(file), 0, slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_ctx, params.kv_unified = slots * (prompt + new + 8), shared
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return xllamacpp.Server(params)


def theirs(at: Any, ids: list[list[int]], new: int, shared: bool) -> Work:
    """All completions, by a request for each prompt where they are `shared`."""
    count_of = common.GROUP_SIZE if shared else 1
    asked = [each for each in ids for _ in range(common.GROUP_SIZE // count_of)]
    options = {"max_tokens": new, "ignore_eos": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}

    def one(prompt: list[int]) -> int:
        done = at.handle_completions({"prompt": prompt, "n": count_of, "logprobs": 1, "cache_prompt": False, **options})
        found: dict[str, Any] = json.loads(done) if isinstance(done, str) else done
        assert [choice["finish_reason"] for choice in found["choices"]] == ["length"] * count_of, found
        return int(found["usage"]["completion_tokens"]) * count_of  # it tells of one of them

    def work() -> None:
        with ThreadPoolExecutor(len(asked)) as pool:
            made = sum(pool.map(one, asked))
        assert made == PROMPTS * common.GROUP_SIZE * new, made

    return work


def main() -> None:
    parser = common.parser("lab.benchmarks.llama_cpp", __doc__)
    options = parser.parse_args()
    prompt, new = (16, 4) if options.quick else (options.prompt or 256, options.new or 64)
    os.environ["OMP_NUM_THREADS"] = "1"
    common.settle()
    folder = named.obtain(NAME)
    policy = load_policy(ModelConfig(name=str(folder), dtype="float32", device="cpu"))
    texts = common.prompts((prompt * 4,) * PROMPTS)
    ids = [policy.encode_prompt(text) for text in texts]
    tokens = PROMPTS * common.GROUP_SIZE * new
    with tempfile.TemporaryDirectory() as made:
        policy.save(Path(made))
        file = gguf.write(Path(made), NAME, "apache-2.0")
        longest = max(map(len, ids))
        sides = {
            f"llama.cpp, {what}": theirs(server(file, longest, new, shared), ids, new, shared)
            for what, shared in (("a request a completion", False), ("a request a prompt", True))
        }
        spreads = common.in_turn({"ours": ours(policy, texts, new), **sides}, options.repetitions or 3, NAME)
    reference = min(sides, key=lambda name: spreads[name].median)
    found = common.compared(spreads, reference, tokens)
    command.show(common.SIDE_HEADER, common.side_lines(NAME, found))
    limits, weights = common.limits(), sum(p.numel() for p in policy.model.parameters())
    least = len({tuple(each[:end]) for each in ids for end in range(1, len(each) + 1)})  # shared ones once
    bound = 2 * weights * (tokens + least) / limits["flops"]
    shares = {name: bound / spreads[name].median for name in ("ours", reference)}
    print(f"share of the limit: {', '.join(f'{name} {share:.2f}' for name, share in shares.items())}")
    result = {"ratio": found["ours"]["ratio"]["median"], "sides": found, "prompt_tokens": longest, "new_tokens": new}
    result["of_limit"] = shares
    command.finish(options, {**result, "limits": limits, **command.versions("torch", "transformers", "xllamacpp")})


if __name__ == "__main__":
    main()
