"""Rules as requests name them: checked when they are made, and found by filters. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from headwater.base.acls import (
    ANYTHING,
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    Rule,
    Rules,
)
from headwater.base.errors import ErrorCode, KafkaError

RULES_PER_RESOURCE_MAX: Final = 2_000  # they are one node in ZooKeeper, which holds a megabyte


def checked(resource_type: int, pattern_type: int, name: str, rule: Rule) -> tuple[Pattern, Rule]:
    """What is to be added; raises INVALID_REQUEST."""
    if resource_type not in SUPPORTED_OPERATIONS:
        raise _wrong(f"Invalid resource type {_name(ResourceType, resource_type)}")
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _wrong(f"Invalid pattern type {_name(PatternType, pattern_type)}")
    if rule.permission not in (Permission.ALLOW, Permission.DENY):
        raise _wrong(f"Invalid permission type {_name(Permission, rule.permission)}")
    if rule.operation not in (*SUPPORTED_OPERATIONS[resource_type], Operation.ALL):
        raise _wrong(
            f"Operation {_name(Operation, rule.operation)} is not one of those for {_name(ResourceType, resource_type)}"
        )
    if not name:
        raise _wrong("Resource name should not be empty")
    if resource_type == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _wrong(f"The only name allowed for the CLUSTER resource is {CLUSTER_NAME}")
    kind, colon, who = rule.principal.partition(":")
    if not colon or not kind or not who:
        raise _wrong(f"Could not parse principal from `{rule.principal}` (no colon is present separating the type)")
    if not rule.host:
        raise _wrong("The host of a rule should not be empty: * means all")
    return Pattern(resource_type, pattern_type, name), rule


class Filter(NamedTuple):
    """Which rules are meant. None and ANY leave out a condition."""

    resource_type: int
    pattern_type: int
    name: str | None
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def check(self) -> None:
        """Raises INVALID_REQUEST for what is unknown: it would match nothing, and somebody meant something."""
        for kind, value in (
            (ResourceType, self.resource_type),
            (PatternType, self.pattern_type),
            (Operation, self.operation),
            (Permission, self.permission),
        ):
            if value not in kind._value2member_map_ or value == 0:
                raise _wrong(f"The filter has an unknown element: {kind.__name__} {value}")

    def matching(self, acls: Mapping[Pattern, Rules]) -> Iterator[tuple[Pattern, Rules]]:
        """The rules that are meant, by what they are about."""
        for pattern, rules in acls.items():
            if self._is_about(pattern):
                found = tuple(rule for rule in rules if self._means(rule))
                if found:
                    yield pattern, found

    def _is_about(self, pattern: Pattern) -> bool:
        if self.resource_type not in (ResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern.pattern_type):
            return False
        if self.name is None or self.name == pattern.name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if pattern.pattern_type == PatternType.PREFIXED:
            return self.name.startswith(pattern.name)
        return pattern.name == ANYTHING

    def _means(self, rule: Rule) -> bool:
        return (
            self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )


def _wrong(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _name(kind: type[ResourceType | PatternType | Operation | Permission], value: int) -> str:
    return kind(value).name if value in kind._value2member_map_ else str(value)
