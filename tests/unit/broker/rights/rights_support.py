"""A broker with an authorizer, asked by somebody through the general way of requests."""

from typing import Any

from headwater.base.acls import Operation, PatternType, Permission, ResourceType
from headwater.broker.context import ConnectionContext
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS
from headwater.metadata.image import AclsSet
from headwater.server.dispatch import begin
from headwater.wire.headers import encode_request_header

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def ask(
    lab: Any,
    principal: str,
    request: Any,
    version: int | None = None,
    client_id: str = "tests",
    listener: str = "PLAINTEXT",
) -> Any:
    """The response; None where there is none."""
    api = APIS[request.KEY]
    version = api.serves[1] if version is None else version
    frame = encode_request_header(api.key, version, 7, client_id) + b"".join(request.encode(version))
    connection = ConnectionContext("127.0.0.1", 5000, listener, principal)
    result = begin(lab.broker, connection, memoryview(bytearray(frame))).result
    if isinstance(result, Deferred):
        lab.settle()
        assert result.done
        result = result.response
    if result is None or isinstance(result, BaseException):
        return result
    return type(result).decode(b"".join(map(bytes, result.encode(version))), 0, version)


def allow(
    lab: Any,
    principal: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
    *,
    prefixed: bool = False,
    deny: bool = False,
) -> None:
    """One more rule, as if somebody had made it."""
    change = AclsSet(kind, PatternType.PREFIXED if prefixed else PatternType.LITERAL, name, ())
    rule = (principal, "*", int(operation), int(Permission.DENY if deny else Permission.ALLOW))
    rules = (*lab.broker.image.acls.get(change.pattern, ()), rule)
    lab.broker.image.apply(AclsSet(*change.pattern, rules))
