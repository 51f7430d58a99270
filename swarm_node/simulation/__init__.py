"""Many nodes in one experiment: arms, seeds, faults, report. `main.simulate` is the way in.

The parent process never imports torch: it starts worker processes, one per arm and seed, and collects what they say.
"""
