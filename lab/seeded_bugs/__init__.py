"""Forty bugs, put into the code one at a time: do the tests that reach the changed file catch each
of them?

    # of the last commit; what runs/seeded_bugs has is not done again
    python -m lab.seeded_bugs
    # of another one: before and after the tests were changed
    python -m lab.seeded_bugs --commit 140b8bc

The bugs stand in bugs.toml. A bug is caught if a test passes without it and fails with it.
"""
