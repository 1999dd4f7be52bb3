"""How a login fails, on either side. The message is for the log and, where it says so, for the peer; it holds no
secret.
"""


class LoginFailed(Exception):
    """The peer is not who it says, or does not keep to the mechanism. `told`: what the peer may know of the reason."""

    def __init__(self, why: str, *, told: str | None = None) -> None:
        super().__init__(why)
        self.told = told
