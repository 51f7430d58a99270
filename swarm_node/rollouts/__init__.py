"""Groups of completions: scored ones, external ones, and how they are selected. No torch."""
