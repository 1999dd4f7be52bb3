"""Passwords and proofs are compared in a time that says nothing of them, and a user that there is not costs the same
work, and meets the same words, as one with another password.
"""

import hmac
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.security import scram
from headwater.base.security.login_errors import LoginFailed
from headwater.server.security.sasl_servers import PlainServer

PASSWORD = "canary-4417"
SALT = bytes(16)


def by_plain(user: str, password: str) -> None:
    PlainServer({"alice": PASSWORD}).receive(f"\0{user}\0{password}".encode())


def by_scram(name: str) -> Callable[[str, str], None]:
    mechanism = scram.MECHANISMS[name]
    salted = scram.salted_password(mechanism, PASSWORD, SALT, 4096)
    known = {"alice": scram.credential_of(mechanism, salted, SALT, 4096)}

    def log_in(user: str, password: str) -> None:
        server = scram.ScramServer(mechanism, known.get, "theirs", b"secret of the process")
        client = scram.ScramClient(mechanism, user, password, "ours")
        final = client.receive(server.receive(client.first()))
        assert final is not None
        server.receive(final)
        assert server.user == user

    return log_in


LOGINS = {"PLAIN": by_plain, **{name: by_scram(name) for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")}}


class Watched:
    """What a login computes and compares, in order; and what it says in the end."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work: list[str] = []
        for module, name in ((hmac, "compare_digest"), (scram, "_hmac")):
            monkeypatch.setattr(module, name, self._noting(name, getattr(module, name)))

    def _noting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any) -> Any:
            self.work.append(name)
            return function(*given)

        return noting

    def fails(self, log_in: Callable[[str, str], None], user: str, password: str) -> tuple[str, list[str]]:
        self.work.clear()
        with pytest.raises(LoginFailed) as told:
            log_in(user, password)
        return str(told.value), list(self.work)


@pytest.mark.parametrize("mechanism", LOGINS)
def test_an_unknown_user_costs_what_a_wrong_password_does(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log_in = LOGINS[mechanism]
    watched = Watched(monkeypatch)
    words, work = watched.fails(log_in, "alice", "wrong")
    assert "compare_digest" in work
    assert watched.fails(log_in, "nobody", "wrong") == (words, work)
    assert watched.fails(log_in, "nobody", PASSWORD) == (words, work)
    watched.work.clear()
    log_in("alice", PASSWORD)
    assert watched.work[: len(work)].count("compare_digest") == work.count("compare_digest"), "no way is shorter"
