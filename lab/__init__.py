"""What measures, studies and attacks a node, and how its starter models were made. Nothing of it is installed.

Its commands are listed in benchmarks, studies and fuzzing. One more is about the tests: `python -m lab.seeded_bugs`
says which of forty bugs they catch.

This file sets the environment of all of them, which counts only before torch is imported.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # TRL's trainers send telemetry otherwise
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"  # spinning threads would be billed as CPU time
