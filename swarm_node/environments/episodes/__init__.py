"""Small questions of several turns: a number or a word to guess, a calculator to use, a second try
at a question.
"""
