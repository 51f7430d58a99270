"""Tools that measure, study and attack a node, and that made its starter models. None of them is
installed.

The docstrings of benchmarks, studies and fuzzing list the commands. One more concerns the tests:
`python -m lab.seeded_bugs` says which of forty bugs the tests catch.

This file sets environment variables for all of these tools: they take effect only if set before
torch is imported.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # TRL's trainers send telemetry otherwise
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"  # spinning threads would be billed as CPU time
