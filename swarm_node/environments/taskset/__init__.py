"""Questions of a task set of verifiers: what can be shared, who scores them, and what is trained on
alone.
"""
