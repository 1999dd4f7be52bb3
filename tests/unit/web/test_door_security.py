"""What becomes of a door's settings: a login, TLS, or a refusal that says what to do instead. And the gate in front of
an application.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from headwater.base.acls import Operation
from headwater.base.errors import ErrorCode, UserError
from headwater.web.callers import EVERYBODY, Need, cluster, topic
from headwater.web.cluster_login import LoginRefused, _asked, _mask
from headwater.web.content import json_response
from headwater.web.door_security import DoorSecurity, _Gate, login_settings, refuse_extensions
from headwater.web.listeners import parse_listener
from headwater.web.messages import Headers, HttpError, Request, Response
from headwater.web.presented import Presented, basic_header
from headwater.web.rights import require

SASL = {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT", "sasl.jaas.config": "...canary..."}


def made(listener: str, client: dict[str, Any] | None = None, **settings: str) -> DoorSecurity:
    async def make() -> DoorSecurity:
        given = {name.replace("_", "."): value for name, value in settings.items()}
        security = DoorSecurity("The door", given, [parse_listener(listener, 1)], client or {})
        await security.close()
        return security

    return asyncio.run(make())


@pytest.mark.parametrize(
    ("listener", "settings", "told"),
    [
        ("http://0.0.0.0:1", {"authentication_method": "BASIC"}, "plain text"),
        ("http://127.0.0.1:1", {"authentication_method": "KERBEROS"}, "nobody knows it"),
        ("http://127.0.0.1:1", {"authentication_method": "BASIC", "authentication_roles": "admin"}, "no roles"),
        ("https://127.0.0.1:1", {}, "needs a key"),
        ("https://127.0.0.1:1", {"ssl_keystore_location": "/nowhere"}, "/nowhere"),
        ("https://127.0.0.1:1", {"ssl_client_auth": "perhaps"}, "REQUIRED"),
        ("http://127.0.0.1:1", {"resource_extension_class": "io.X"}, "authentication.method=BASIC"),
        ("http://127.0.0.1:1", {"authentication_allow_plaintext": "perhaps"}, "true or false"),
    ],
)
def test_what_cannot_work_does_not_start(listener: str, settings: dict[str, str], told: str) -> None:
    with pytest.raises(UserError) as problem:
        made(listener, SASL, **settings)
    assert told in f"{problem.value.what} {problem.value.why} {problem.value.hint}"
    assert "canary" not in f"{problem.value!r} {problem.value}"


def test_a_login_needs_brokers_that_have_logins() -> None:
    with pytest.raises(UserError, match="without logins"):
        made("http://127.0.0.1:1", {"bootstrap.servers": "a:1"}, authentication_method="BASIC")
    assert made("http://127.0.0.1:1", SASL, authentication_method="BASIC").has_login
    behind_a_proxy = {"authentication_method": "bearer", "authentication_allow_plaintext": "true"}
    assert made("http://0.0.0.0:1", SASL, **behind_a_proxy).has_login
    assert not made("http://127.0.0.1:1").has_login


def test_basic_auth_of_connect_is_refused_by_name() -> None:
    name = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
    with pytest.raises(UserError) as told:
        refuse_extensions({"rest.extension.classes": name})
    assert name in told.value.what
    assert "authentication.method=BASIC" in (told.value.hint or "")


def test_where_callers_are_logged_in() -> None:
    settings, mechanisms = login_settings({}, SASL)
    assert settings["bootstrap.servers"] == "a:1"
    assert mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER"], "no password in plain text to brokers"
    own = {
        "authentication.kafka.bootstrap.servers": "b:2",
        "authentication.kafka.security.protocol": "sasl_ssl",
        "authentication.kafka.ssl.ca.location": "ca.pem",
    }
    settings, mechanisms = login_settings(own, {"bootstrap.servers": "a:1"})
    assert (settings["bootstrap.servers"], settings["security.protocol"]) == ("b:2", "SASL_SSL")
    assert settings["ssl.truststore.location"] == "ca.pem"
    assert "PLAIN" in mechanisms
    assert login_settings({**own, "authentication.kafka.sasl.mechanism": "plain"}, {})[1] == ["PLAIN"]
    with pytest.raises(UserError, match="GSSAPI"):
        login_settings({**own, "authentication.kafka.sasl.mechanism": "GSSAPI"}, {})


# The gate


class Someone:
    may_everything = False

    def __init__(self, name: str, *has: Need) -> None:
        self.name, self._has = name, frozenset(has)

    async def allowed(self, needs: Iterable[Need]) -> frozenset[Need]:
        return self._has & frozenset(needs)


class Login:
    """Knows alice; whoever comes with `late` is refused when his rights are asked for."""

    def __init__(self) -> None:
        self.forgotten: list[Presented] = []

    async def caller(self, shown: Presented, _peer: str) -> Someone:
        if shown.secret != "right":
            raise LoginRefused("because")
        return Someone(shown.user, topic(Operation.READ, "t"))

    def forget(self, shown: Presented) -> None:
        self.forgotten.append(shown)


class Application:
    async def handle(self, request: Request) -> Response:
        if request.segments == ("late",):
            raise LoginRefused("the user was deleted")
        return json_response(request.caller.name)

    def on_error(self, error: HttpError, _request: Request | None) -> Response:
        return json_response(error.message, error.status)


def ask(gate: Any, path: str, *headers: str, method: str = "GET") -> Any:
    fields = tuple(("Authorization", each) for each in headers)
    request = Request(method, path, tuple(path.strip("/").split("/")), headers=Headers(fields))
    try:
        return asyncio.run(gate.handle(request)).body
    except HttpError as error:
        return error.status, error.headers.get("WWW-Authenticate")


def test_the_gate_lets_in_who_logs_in() -> None:
    settings = {"authentication_method": "BASIC", "authentication_skip_paths": "/health", "authentication_realm": "r"}
    security = made("http://127.0.0.1:1", SASL, **settings)
    login = Login()
    gate = _Gate(Application(), security, login)  # type: ignore[arg-type]
    refused = (401, 'Basic realm="r"')
    assert ask(gate, "/x", basic_header("alice:right")) == b'"alice"'
    assert ask(gate, "/health") == b'""'
    assert ask(gate, "/health/more") == refused
    assert ask(gate, "/health", method="POST") == refused, "looking is free, and nothing else"
    assert ask(gate, "/x") == refused
    assert ask(gate, "/x", basic_header("alice:wrong")) == refused
    assert ask(gate, "/x", "Bearer right") == refused, "the door takes no tokens"
    assert ask(gate, "/late", basic_header("alice:right")) == refused
    assert [each.user for each in login.forgotten] == ["alice", "alice"]


def test_a_caller_has_all_that_is_needed_or_is_refused() -> None:
    alice = Someone("alice", topic(Operation.READ, "t"), cluster(Operation.DESCRIBE))
    asyncio.run(require(EVERYBODY, topic(Operation.WRITE, "x")))
    asyncio.run(require(alice))
    asyncio.run(require(alice, topic(Operation.READ, "t"), cluster(Operation.DESCRIBE)))
    with pytest.raises(HttpError) as told:
        asyncio.run(require(alice, topic(Operation.READ, "t"), topic(Operation.WRITE, "t")))
    assert (told.value.status, told.value.code) == (403, 40301)
    assert told.value.message == "User 'alice' is denied WRITE on TOPIC 't'"


def test_what_brokers_tell_of_rights() -> None:
    assert _mask(8, 0) == 8
    assert _mask(8, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 8, "rules may be about what there is not yet"
    assert _mask(8, ErrorCode.TOPIC_AUTHORIZATION_FAILED) == 0
    assert _mask(-(2**31), 0) == 0, "who tells nothing allows nothing"
    assert _asked(topic(Operation.READ, "no/topic")) == cluster(Operation.DESCRIBE)
    assert _asked(topic(Operation.WRITE, "no/topic")) == cluster(Operation.ALTER)
    assert _asked(topic(Operation.WRITE, "t")) == topic(Operation.WRITE, "t")


def test_a_path_that_needs_no_login_is_compared_by_its_parts() -> None:
    security = made("http://127.0.0.1:1", SASL, authentication_method="BASIC", authentication_skip_paths="/a/b")
    assert security.needs_no_login(Request("GET", "/a/b", ("a", "b")))
    assert not security.needs_no_login(Request("GET", "/a%2Fb", ("a/b",)))
