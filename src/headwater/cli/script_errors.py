"""What ends a script early: wrong usage, or a last line and an exit code. `exits` says it."""


class Usage(Exception):
    """Wrong usage: the message comes before the list of options."""


class Stop(Exception):
    """The end, with this exit code and, if there is one, a last line on stderr."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
