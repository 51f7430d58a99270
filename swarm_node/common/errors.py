"""The one exception that is a user's mistake rather than ours."""


class UserError(Exception):
    """A mistake a user can mend. Its text is one line that says what is wrong and what to do; never a traceback."""
