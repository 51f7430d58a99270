"""Groups of completions: scored ones, those heard from peers, and how they are sampled. No torch."""
