"""What the node does to learning, and whether it is right: the studies whose results are in docs/results.

`python -m studies.NAME`, NAME one of those below; `--help` says what it does and takes. With `--json` the last line is
one JSON object. What takes hours is kept in runs/studies/NAME; interrupted, it goes on from there. Results and figures
go there, too, unless `--out` names another folder, such as docs/results/NAME.

on a GPU     sapo_on_a_card (the paper's four arms; not run on one yet)
learning     sharing, mixed (models), poisoning (hostile nodes), staleness (old text), fp8_learning, puzzle_learning
figures      fp8 (mismatch by precision), scale (10,000 nodes), soak (memory through hours), temporal_clue (its puzzles)
attacks      reflection and reflection_real (what an announced address makes nodes send)
for the node catalogue_survey, which makes the catalogue of reasoning-gym
parts        simulated and simulated_exchange, habit, enumeration, fp8_formats
"""

import benchmarks as benchmarks  # sets the environment, which counts only before torch is imported
