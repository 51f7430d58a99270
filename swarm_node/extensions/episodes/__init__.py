"""Small questions of several turns: a number to guess, a calculator to use, a second try at a question."""
