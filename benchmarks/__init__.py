"""Speed, measured: `python -m benchmarks.generation`, `.step`, `.swarm`; see docs/results/speed.md.

The environment is set here because it counts only before torch, transformers and TRL are imported.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # TRL's trainers send telemetry otherwise
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OMP_WAIT_POLICY"] = "passive"  # spinning threads would be billed as CPU time
