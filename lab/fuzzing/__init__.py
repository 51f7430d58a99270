"""Hostile inputs: what makes them, and the commands that send them.

`python -m lab.fuzzing.NAME` runs one of the commands below; `--help` says what it does and which
options it has. With `--json` the last line is one JSON object. Results are in
docs/results/security.md, scoring.md and network.md.

fuzz       mutated inputs (mutation) over every decoder and handler that a stranger's bytes reach
           (targets)
hostile    hostile completions (hostile_answers) against every data set, alone and behind a right
           one (right_answers), through a real scoring process (hostile_source)
carried    right answers that carry free text (carriers): is any of them paid?
spellings  honest spellings of right answers: our scores beside the library's
backups    mutated backups: what `restore` does with them
folders    payloads in every field of a folder, a backup and a page's forms (stranger): whether any
           of them runs
models     model folders of a stranger, every field and file: whether any runs, raises, hangs or
           controls the terminal
forged_episodes  forged trajectories, against replay
interrupts Ctrl-C while a command starts
hostile_peer  a peer that attacks a swarm in several ways; studies start it
"""
