"""Logins of profiles in the system's keyring (macOS Keychain, Windows Credential Locker, Secret Service, KWallet), by
the package `keyring`. One entry for each profile, under a name of its own: its client properties as text.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.base.errors import UserError

if TYPE_CHECKING:
    from types import ModuleType

_SERVICE: Final = "headwater"
_INSTEAD: Final = "Unlock it, or make the profile anew without --keyring (--force): its login is then kept in a file that only you can read"

Result = TypeVar("Result")


def keep(name: str, text: str) -> None:
    _ask(lambda ring: ring.set_password(_SERVICE, name, text))


def find(name: str) -> str:
    found: str | None = _ask(lambda ring: ring.get_password(_SERVICE, name))
    if found is None:
        raise UserError(
            f"The login of the profile {name!r} is not in the system's keyring",
            "it was taken out, or this is another user or machine",
            "Make it anew: headwater profile create NAME --force --keyring ...",
        )
    return found


def forget(name: str) -> None:
    """Does nothing if there is no such entry."""

    def delete(ring: "ModuleType") -> None:
        if ring.get_password(_SERVICE, name) is not None:
            ring.delete_password(_SERVICE, name)

    _ask(delete)


def _ask(question: Callable[["ModuleType"], Result]) -> Result:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        raise UserError(
            "The system's keyring cannot be asked",
            "the package keyring is not installed",
            "Run: pip install 'headwater[keyring]'",
        ) from None
    try:
        return question(keyring)
    except (KeyringError, OSError, ValueError, RuntimeError) as problem:  # backends have errors of their own, too
        why = (str(problem) or type(problem).__name__).split(". ")[0]
        raise UserError("The system's keyring does not answer", why, _INSTEAD) from None
