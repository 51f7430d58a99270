"""Turns prompts into completions with the log-probability of each token, on the CPU or one GPU."""
