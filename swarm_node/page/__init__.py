"""A node in a browser: a process of its own that reads what the node writes and asks it how it
is.
"""
