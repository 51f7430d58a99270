"""Many nodes in one experiment: arms, seeds, faults, report. Start with `main.simulate`.

The parent process never imports torch. It starts a worker process for each arm and seed, and
collects their messages.
"""
