"""How fast the node is and how much it sends, compared with other programs or with other ways to do the same.

`python -m lab.benchmarks.NAME`, NAME one of those below; `--help` says what it does and takes. With `--json` the last
line is one JSON object. Results are in docs/results.

beside others      generation (Hugging Face), step (TRL), real (TRL with its defaults, on shapes of real models),
                   swarm and network (genrl)
beside a release   compatibility (same rewards; it takes the release out of git)
of the pages       tutorials (how long each takes a newcomer), page (what a page in a browser costs a node)
of the node        asynchronous, defence, fp8_gpu, group_path (which files an external group passes), hanging (with
                   hanging_source), interruption, memory_plan (what fits on which card), micro_batches, packing,
                   parallel (ranks of one node), scoring, start (seconds to the first line), trials (of decoder and
                   packing, first and second start)
of its network     backends, crowd (a bootstrap node with 500 connections), punching (as root: network namespaces)
what they share    command (options, tables, JSON, what is kept; studies and fuzzing use it, too), common (models,
                   prompts, sides in turn), resident (memory), waiting, pages (what a reader of the documentation
                   does; tests, too), internet (hosts in network namespaces; tests, too), genrl_side, shapes (of real
                   models), served (a model of ours behind OpenAI's API; studies and tests)
other processes    genrl_node and genrl_gather, run by an interpreter that has genrl; asynchronous_child; parallel_rank;
                   group_path_peer and group_path_tracer, for group_path

The environment is set here because it counts only before torch, transformers and TRL are imported.
"""
