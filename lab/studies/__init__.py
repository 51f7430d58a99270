"""Studies of how well nodes learn, and of whether parts are right. Results are in docs/results.

`python -m lab.studies.NAME`, NAME one of those below; `--help` says what it does and takes. With `--json` the last line
is one JSON object. Long runs are kept in runs/studies/NAME, and go on from there after an interruption. Results and
figures go there too, unless `--out` names another folder, such as docs/results/NAME. Those with statistics need the
extra `studies`.

on Ray       on_ray (the same study, and one swarm, over three raylets beside one process); part: raylets
on a GPU     sapo_on_a_card (the paper's four arms; not run on one yet)
memory       real_node (rounds at the shape of Qwen2.5-0.5B)
guests       mixed_swarm (a node, a TRL script, a contributor, py-libp2p), trl_beside_nodes; both use guests
sharing      sharing, specialists (nodes that ask different tasks), equal_compute, samplers, mixed (models),
             strength (strong among weak), person (who answers now and then); parts: runner, statistics, figures
learning     poisoning (hostile nodes), staleness (old text), fp8_learning, puzzle_learning
figures      fp8 (mismatch by precision), scale (10,000 nodes), soak (memory through hours), temporal_clue (its puzzles)
attacks      reflection and reflection_real (what an announced address makes nodes send), eclipse (who is in view),
             storm (16 nodes, four hostile), hundred (network processes for an hour); both use attackers and churn
for the node catalogue_survey, which makes the catalogue of reasoning-gym
parts        places (--engine ray, --workers-by), simulated and simulated_exchange, habit, enumeration, fp8_formats
"""
