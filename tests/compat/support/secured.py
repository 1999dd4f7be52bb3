"""One broker with logins over TLS, users with rights, and HTTP doors in front of it: what the tests of doors share."""

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from compat.support.broker import BrokerProcess, HeadwaterBroker
from compat.support.certificates import Authority, Issuer
from headwater.client import Admin
from headwater.client.admin.acls import AclBinding
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion
from headwater.web.presented import basic_header

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
CANARY = "canary-5501"  # in every password, so that one search finds them all
PASSWORDS = {name: f"{CANARY}-{name}" for name in ("admin", "alice", "bob", "plain", "carol")}
PATIENCE_S = 60


class SecuredCluster(NamedTuple):
    broker: BrokerProcess
    directory: Path
    authority: str
    certificate: str
    issuer: Issuer
    certificates: Authority

    def client(self, user: str, prefix: str = "") -> dict[str, str]:
        """Settings of a client, by Java's names."""
        login = f'{SCRAM} username="{user}" password="{PASSWORDS[user]}";'
        given = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.authority,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": login,
        }
        return {prefix + name: value for name, value in given.items()}

    @property
    def door(self) -> dict[str, str]:
        """TLS and a login, for any door."""
        return {
            "authentication.method": "BASIC,BEARER",
            "ssl.keystore.location": self.certificate,
            "ssl.truststore.location": self.authority,
        }

    def token(self, user: str) -> str:
        return self.issuer.token(sub=user, iss="us", aud="headwater", exp=time.time() + 3600)

    def admin(self) -> Admin:
        return Admin({"bootstrap.servers": self.broker.bootstrap, **self.client("admin")})


def basic(user: str, password: str | None = None) -> dict[str, str]:
    return {"Authorization": basic_header(f"{user}:{PASSWORDS[user] if password is None else password}")}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def secured_cluster(
    directory: Path, rules: list[AclBinding], settings: Mapping[str, str] | None = None
) -> Iterator[SecuredCluster]:
    """SASL_SSL alone. `admin` is the super user; the others have `rules`. `plain` is listed for PLAIN, the rest have
    SCRAM credentials.
    """
    authority, issuer = Authority(directory), Issuer()
    (directory / "jwks.json").write_bytes(issuer.jwks())
    certificate = authority.pem("broker")
    broker = HeadwaterBroker(
        directory / "broker",
        {
            "listeners": "SASL_SSL://127.0.0.1:0",
            "security.inter.broker.protocol": "SASL_SSL",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "ssl.keystore.location": certificate,
            "ssl.truststore.location": authority.path,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} user_plain="{PASSWORDS["plain"]}";',
            "sasl.jaas.config": f'{SCRAM} username="admin" password="{PASSWORDS["admin"]}";',
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory / 'jwks.json'}",
            "sasl.oauthbearer.expected.issuer": "us",
            "sasl.oauthbearer.expected.audience": "headwater",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            **(settings or {}),
        },
    )
    broker.start()
    cluster = SecuredCluster(broker, directory, authority.path, certificate, issuer, authority)
    try:
        with cluster.admin() as admin:
            mechanisms = {
                "alice": ScramMechanism.SHA_512,
                "bob": ScramMechanism.SHA_256,
                "carol": ScramMechanism.SHA_512,
            }
            upsertions = [ScramUpsertion(each, PASSWORDS[each].encode(), how) for each, how in mechanisms.items()]
            assert set(admin.alter_user_scram_credentials(upsertions).values()) == {None}
            made = admin.create_acls(rules)
            assert all(problem is None for problem in made.values()), made
        yield cluster
    finally:
        broker.stop()


class Caller:
    """HTTPS to one door, as one user. `trusted`: the authority's file."""

    def __init__(self, url: str, trusted: str, headers: dict[str, str]) -> None:
        self._parts = urlsplit(url)
        self._context = ssl.create_default_context(cafile=trusted)
        self._headers = headers

    def ask(self, method: str, path: str, document: object = None) -> tuple[int, Any]:
        host, port = self._parts.hostname, self._parts.port
        assert host is not None
        if self._parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=PATIENCE_S, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
        body = None if document is None else json.dumps(document).encode()
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **self._headers})
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        kind = answer.headers.get("content-type") or ""
        return answer.status, json.loads(data) if data and "json" in kind else data.decode()

    def status(self, method: str, path: str, document: object = None) -> int:
        return self.ask(method, path, document)[0]
