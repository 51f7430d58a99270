"""How fast the node is and how much it sends, compared with other programs or with other ways to do
the same.

`python -m lab.benchmarks.NAME` runs one of the benchmarks below. `--help` says what it measures and
which options it has. With `--json` the last line is one JSON object. Results are in docs/results.

beside others      generation (Hugging Face), step (TRL), real (memory beside TRL), minutes (until a
                   model has learned something, beside TRL), peers (all, on real shapes), older (a
                   commit of ours), update (the update alone, beside a commit of ours and plain
                   products)
of the pages       tutorials (how long each takes a newcomer), page (what a page in a browser costs
                   a node)
of the node        card (every check that needs a GPU), fp8_gpu, group_path (which files an external
                   group passes), memory_plan (what fits on which card), node_memory (memory of all
                   processes), replay (cost of playing episodes of peers again), scoring, start
                   (seconds to the first line), swarm (where a round spends its time)
what they share    command (options, tables, JSON, kept results; studies and fuzzing use it, too),
                   common (models, prompts, timing in turn), levels (when a course reaches a level;
                   studies, too), network (groups and cards), waiting (polling), pages (what a
                   reader of the documentation does; tests, too), internet (hosts in network
                   namespaces, for tests), shapes (of real models), served (a model of ours behind
                   OpenAI's API; studies and tests)
other processes    group_path_peer and group_path_tracer, for group_path; minutes_sides; older_side;
                   update_side; replayed, for replay and fuzzing

The environment is set here because it counts only before torch, transformers and TRL are imported.
"""
