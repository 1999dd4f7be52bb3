"""Principals x APIs x operations: rules, users, and a request of every API, sent by hand to whatever broker; what comes
back is reduced to its error codes, its authorized operations and the names that the caller gets to see.

The requests are in rights_requests.py; rules with the prefix `t` reach what is not there (`t.gone`), too. A principal
is called after its only rule; some have several, or one that denies.
"""

import re
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from compat.support.rights_requests import Case, cases
from headwater.base.acls import Operation, ResourceType
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages import create_acls, create_topics, sasl_authenticate, sasl_handshake
from headwater.wire.registry import response_class

PATIENCE_S = 120
_NOT_ASKED = -(2**31)
SUPER = "super"
CLUSTER = "kafka-cluster"
ALLOW, DENY = 3, 2
LITERAL, PREFIXED = 3, 4
T, G, C, X = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
Op = Operation
_NAMES = {T: "t", G: "g", C: CLUSTER, X: "x"}
_OPERATIONS = {
    T: (Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.ALL),
    G: (Op.READ, Op.DELETE, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.ALL),
    C: (Op.CREATE, Op.CLUSTER_ACTION, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.IDEMPOTENT_WRITE, Op.ALTER, Op.DESCRIBE, Op.ALL),
    X: (Op.DESCRIBE, Op.WRITE, Op.ALL),
}  # fmt: skip
RETRY = {14, 15, 16, 51}  # a coordinator that loads or moves, a transaction that ends: nothing about rights


class Rule(NamedTuple):
    kind: ResourceType
    operation: Operation
    name: str = ""
    pattern: int = LITERAL
    permission: int = ALLOW


def _principals() -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {"nobody": []}
    for kind, operations in _OPERATIONS.items():
        pattern = LITERAL if kind is C else PREFIXED
        for each in operations:
            found[f"{kind.name.lower()}-{each.name.lower()}"] = [Rule(kind, each, _NAMES[kind], pattern)]
    everything = [Rule(kind, Op.ALL, "*" if kind is not C else CLUSTER) for kind in (T, G, C, X)]
    found |= {
        "literal-t": [Rule(T, Op.ALL, "t"), Rule(G, Op.ALL, "g"), Rule(X, Op.ALL, "x")],
        "other-prefix": [Rule(T, Op.ALL, "ta", PREFIXED), Rule(G, Op.ALL, "ga", PREFIXED)],
        "everything": everything,
        "consumer": [Rule(T, Op.READ, "t", PREFIXED), Rule(G, Op.READ, "g", PREFIXED)],
        "producer": [Rule(T, Op.WRITE, "t", PREFIXED), Rule(X, Op.WRITE, "x")],
        "copier": [Rule(T, Op.READ, "t"), Rule(T, Op.WRITE, "t"), Rule(G, Op.READ, "g"), Rule(X, Op.WRITE, "x")],
        "no-read": [*everything, Rule(T, Op.READ, "t", LITERAL, DENY)],
        "no-describe": [
            *everything,
            Rule(T, Op.DESCRIBE, "t", PREFIXED, DENY),
            Rule(G, Op.DESCRIBE, "*", LITERAL, DENY),
        ],
        "no-cluster": [*everything, Rule(C, Op.ALL, CLUSTER, LITERAL, DENY)],
        "no-write": [*everything, Rule(T, Op.WRITE, "*", LITERAL, DENY), Rule(X, Op.WRITE, "x", PREFIXED, DENY)],
        "tokens-of-another": [Rule(ResourceType.USER, Op.CREATE_TOKENS, "User:consumer")],
        "writer-elsewhere": [Rule(T, Op.WRITE, "elsewhere")],
    }
    return found


PRINCIPALS = _principals()
PASSWORDS = {user: f"{user}-secret" for user in (SUPER, *PRINCIPALS)}
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required {};".format(
    " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
)
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{SUPER};User:ANONYMOUS",  # ANONYMOUS: Apache's broker at its own controller
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
}


# Asking


class Link:
    """One connection of one user, logged in."""

    def __init__(self, bootstrap: str, user: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = self.ask(sasl_handshake.SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert hello.error_code == 0
        token = b"\0".join((b"", user.encode(), PASSWORDS[user].encode()))
        answer = self.ask(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=token), 1)
        assert answer.error_code == 0, answer.error_message

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def ask(self, request: Any, version: int) -> Any:
        data = encode_request_header(request.KEY, version, 1, "matrix") + b"".join(
            bytes(p) for p in request.encode(version)
        )
        self._socket.sendall(struct.pack(">i", len(data)) + data)
        answer = memoryview(self._exactly(struct.unpack(">i", self._exactly(4))[0]))
        _, at = decode_response_header(answer, request.KEY, version)
        return response_class(request.KEY).decode(answer, at, version)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            data += piece
        return data


def facts(answer: Any) -> str:
    """Error codes, authorized operations and names, as they stand within each other;
    elements of lists by the alphabet.
    """
    return " ".join(_facts(answer))


def _facts(value: Any) -> Iterator[str]:
    for declared in type(value).FIELDS:
        name, found = declared.name, getattr(value, declared.name)
        if name.endswith("error_code") and isinstance(found, int):
            yield str(found)
        elif name.endswith("authorized_operations"):
            yield "may:-" if found == _NOT_ASKED else f"may:{found:b}"
        elif (
            name in ("name", "topic_name", "group_id", "transactional_id")
            and isinstance(found, str)
            and found[:1] in "tgux"
        ):
            yield found
        elif isinstance(found, list):
            inside = sorted(" ".join(_facts(each)) for each in found if hasattr(type(each), "FIELDS"))
            yield from (f"({each})" for each in inside if each)
        elif hasattr(type(found), "FIELDS"):
            yield from _facts(found)


def answers(bootstrap: str) -> dict[str, dict[str, str]]:
    """By case and principal: what a broker with SETTINGS says."""
    with Link(bootstrap, SUPER) as admin:
        topic_id = prepare(admin)
        settle(bootstrap)
        found: dict[str, dict[str, str]] = {case.name: {} for case in cases(topic_id)}
        for user in (SUPER, *PRINCIPALS):
            with Link(bootstrap, user) as link:
                for case in cases(topic_id):
                    found[case.name][user] = _settled(link, case)
    return found


def prepare(admin: Link) -> bytes:
    """Topics, rules, a group with an offset, a transactional id. The id of the topic `t`."""
    made = [
        create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        for name in ("t", "u")
    ]
    created = admin.ask(create_topics.CreateTopicsRequest(topics=made, timeout_ms=60_000), 7)
    assert [each.error_code for each in created.topics] == [0, 0], created
    rules = [
        create_acls.AclCreation(
            resource_type=rule.kind,
            resource_name=rule.name,
            resource_pattern_type=rule.pattern,
            principal=f"User:{user}",
            host="*",
            operation=rule.operation,
            permission_type=rule.permission,
        )
        for user, rules in PRINCIPALS.items()
        for rule in rules
    ]
    allowed = admin.ask(create_acls.CreateAclsRequest(creations=rules), 3)
    assert {each.error_code for each in allowed.results} == {0}, allowed
    topic_id: bytes = created.topics[0].topic_id
    return topic_id


def settle(bootstrap: str) -> None:
    """Until coordinators serve, the topic is led, and the last rule counts."""
    ready = [
        "produce",
        "fetch",
        "offset_commit t",
        "find_coordinator g",
        "find_coordinator x",
        "init_producer_id x",
        "list_groups",
    ]
    deadline = time.monotonic() + PATIENCE_S
    last = list(PRINCIPALS)[-1]
    with Link(bootstrap, SUPER) as admin, Link(bootstrap, last) as other:
        known = {case.name: case for case in cases(bytes(16))}
        waiting = [(admin, known[name]) for name in ready] + [(other, known["init_producer_id None"])]
        while waiting:
            waiting = [
                (link, case) for link, case in waiting if any(_codes(facts(link.ask(case.request, case.version))))
            ]
            assert time.monotonic() < deadline, [case.name for _, case in waiting]
            time.sleep(0.05 if waiting else 0)


def _settled(link: Link, case: Case) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            found = facts(link.ask(case.request, case.version))
        except OSError as problem:
            raise AssertionError(f"no answer to {case.name}") from problem
        if not RETRY.intersection(_codes(found)):
            return found
        assert time.monotonic() < deadline, (case.name, found)
        time.sleep(0.05)


def _codes(found: str) -> list[int]:
    return [int(each) for each in re.findall(r"(?<![\w.:-])-?\d+(?![\w.])", found)]
