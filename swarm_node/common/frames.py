"""What a reader of frames from another process raises, whichever form its frames have."""


class BrokenFrame(Exception):
    """The bytes are no frame: the other end does not run the program that was started, or no
    longer.
    """
