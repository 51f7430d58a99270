"""Questions from a file of the user's: what is read, how it becomes questions, and who scores
them.
"""
