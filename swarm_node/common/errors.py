"""The exception for a user's mistake."""


class UserError(Exception):
    """A mistake that a user can correct. Its text is one line: what is wrong, and what to do. No traceback is shown."""
