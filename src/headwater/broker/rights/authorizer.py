"""The authorizer: whether somebody may do something, by the rules of the image and the settings of this broker.

Its index is over the image's own rules, in one generation of them, and answers are remembered as long as that lasts.
Super users may do everything and are never looked up.

Owned by the broker's loop.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from headwater.base.acls import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, ResourceType
from headwater.base.errors import UserError
from headwater.broker.context import ConnectionContext
from headwater.broker.rights.rule_index import RuleIndex
from headwater.metadata.image import ClusterImage

AUTHORIZERS: Final = (
    "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
_REMEMBERED_MAX: Final = 100_000
_NAME_MAX: Final = 255  # longer ones, which anybody may make up, are neither remembered nor told in full
_TOLD_MAX: Final = 10_000  # denials between two changes of the rules

audit = logging.getLogger("headwater.audit")


class Settings(Protocol):
    def string(self, name: str) -> str | None: ...

    def bool(self, name: str) -> bool: ...


def authorizer_for(settings: Settings, image: Callable[[], ClusterImage]) -> "Authorizer | None":
    """None where none is configured: then everybody may do everything."""
    name = (settings.string("authorizer.class.name") or "").strip()
    if not name:
        return None
    if name not in AUTHORIZERS:
        raise UserError(
            f"The authorizer {name!r} is not known",
            "classes of Java cannot be loaded here; what Apache Kafka's own authorizers do is built in",
            f"Set authorizer.class.name={AUTHORIZERS[0]}",
        )
    return Authorizer(
        image, super_users(settings.string("super.users") or ""), settings.bool("allow.everyone.if.no.acl.found")
    )


def super_users(text: str) -> frozenset[str]:
    """`User:a;User:CN=b,O=c`: principals with semicolons between them, because names of certificates have commas."""
    found = frozenset(part.strip() for part in text.split(";") if part.strip())
    wrong = sorted(name for name in found if not name.startswith("User:") or name == "User:")
    if wrong:
        raise UserError(
            f"super.users has {wrong[0]!r}, which is not a principal",
            "a principal is written as its type, a colon and its name",
            "Write for example super.users=User:admin;User:broker",
        )
    return found


class Authorizer:
    def __init__(self, image: Callable[[], ClusterImage], supers: frozenset[str], allows_without_rules: bool) -> None:
        self.super_users = supers
        self._image = image
        self._allows_without_rules = allows_without_rules
        self._generation = -1
        self._index = RuleIndex({})
        self._remembered: dict[tuple[str, str, int, int, str], bool] = {}
        self._told = 0
        self.record: Callable[..., None] = _nowhere  # the audit topic

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        if principal in self.super_users:
            return True
        image = self._image()
        if image.acl_generation != self._generation:
            self._look_anew(image)
        key = (principal, host, operation, resource_type, name)
        known = self._remembered.get(key)
        if known is None:
            known = self._index.allows(principal, host, operation, resource_type, name, self._allows_without_rules)
            self._remember(key, known)
        return known

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        if principal in self.super_users:
            return True
        image = self._image()
        if image.acl_generation != self._generation:
            self._look_anew(image)
        return self._index.allows_any(
            principal, host, operation, resource_type, without_rules=self._allows_without_rules
        )

    def _look_anew(self, image: ClusterImage) -> None:
        self._index = RuleIndex(image.acls)
        self._generation = image.acl_generation
        self._remembered.clear()
        self._told = 0

    def _remember(self, key: tuple[str, str, int, int, str], allowed: bool) -> None:
        if len(key[4]) <= _NAME_MAX:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = allowed
        if not allowed:
            principal, host, operation, resource_type, name = key
            self._tell(principal, host, operation, resource_type, name[:_NAME_MAX])

    def _tell(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> None:
        """Once per generation of rules, and not without end: a client that asks again and again fills no disk."""
        self._told += 1
        if self._told > _TOLD_MAX:
            return
        audit.info(
            "event=denied principal=%r host=%r operation=%s resource=%s:%r",
            principal,
            host,
            Operation(operation).name,
            ResourceType(resource_type).name,
            name,
        )
        self.record(
            "denied",
            principal,
            host,
            operation=Operation(operation).name,
            resource=ResourceType(resource_type).name,
            name=name,
        )
        if self._told == _TOLD_MAX:
            audit.warning("event=denials-untold reason='too many: no more are told until rules change'")


def _nowhere(*_event: object, **_details: object) -> None:
    pass


class Caller:
    """Who sends a request, and what it may do."""

    __slots__ = ("_authorizer", "_host", "_principal", "connection", "noted")

    def __init__(self, authorizer: Authorizer, connection: ConnectionContext) -> None:
        self.connection = connection
        self._authorizer = authorizer
        self._principal = connection.principal
        self._host = connection.client_host
        self.noted = connection.rights

    def may(self, operation: int, resource_type: int, name: str) -> bool:
        return self._authorizer.allows(self._principal, self._host, operation, resource_type, name)

    def may_topic(self, operation: int, name: str) -> bool:
        return self.may(operation, ResourceType.TOPIC, name)

    def may_group(self, operation: int, name: str) -> bool:
        return self.may(operation, ResourceType.GROUP, name)

    def may_cluster(self, operation: int) -> bool:
        return self.may(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_transaction(self, operation: int, name: str) -> bool:
        return self.may(operation, ResourceType.TRANSACTIONAL_ID, name)

    def may_any_topic(self, operation: int) -> bool:
        return self._authorizer.allows_any(self._principal, self._host, operation, ResourceType.TOPIC)

    def operations(self, resource_type: int, name: str) -> int:
        """The bits of the operations that are allowed, as answers tell them."""
        return sum(1 << op for op in SUPPORTED_OPERATIONS[resource_type] if self.may(op, resource_type, name))


def caller_of(authorizer: Authorizer | None, connection: ConnectionContext) -> Caller | None:
    """None where everybody may do everything."""
    return None if authorizer is None else Caller(authorizer, connection)
