"""Studies of how well nodes learn, and of whether parts of a node are right. Results are in
docs/results.

`python -m lab.studies.NAME` runs one of the studies below; `--help` says what it does and which
options it has. With `--json` the last line is one JSON object. Long runs are kept in
runs/studies/NAME, and continue from there after an interruption. Results and figures go there too,
unless `--out` names another folder, such as docs/results/NAME. Studies with statistics need the
extra `studies`.

on a GPU     sapo_on_a_card (the paper's four arms; not run on a GPU yet)
sharing      equal_price (against the strongest lone learners), samplers (ways to share that cost no
             own tasks); parts: runner, statistics, rates, objectives
learning     forgetting (tasks that a specialist never asks), band (tasks that a node chooses)
figures      scale (up to 10,000 nodes), joining (by a card or a code)
attacks      eclipse (hostile share of a view), shares (whose groups are trained on),
             quick_author (what an honest node loses by that), storm (16 nodes, four hostile),
             hundred (network processes for an hour, without their operators, with newer cards);
             parts: attackers, churn, happenings
for the node catalogue_survey, which makes the catalogue of reasoning-gym
parts        simulated, simulated_exchange, guests and mixed_swarm (a node, a TRL script, a
             contributor, py-libp2p)
"""
