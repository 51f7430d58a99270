"""Many nodes in one experiment: arms, seeds, faults, report."""
