"""Access rules, indexed by what they are about, and whether they allow something. Pure; the semantics are the
StandardAuthorizer's.

A rule that denies wins over all that allow. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies
DESCRIBE_CONFIGS, where they are allowed and not where they are denied. Where no rule is about the resource at all, a
setting says what holds.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from headwater.base.acls import (
    ANYONE,
    ANYTHING,
    Operation,
    Pattern,
    PatternType,
    Permission,
    Rule,
    Rules,
)

_IMPLYING: Final[dict[int, frozenset[int]]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
_NONE: Final[frozenset[int]] = frozenset()


class RuleIndex:
    """Immutable: rules that change make a new one."""

    def __init__(self, acls: Mapping[Pattern, Rules]) -> None:
        self._literal: dict[tuple[int, str], Rules] = {}
        self._prefixed: dict[tuple[int, str], Rules] = {}
        self._patterns = acls
        lengths: dict[int, set[int]] = {}
        for pattern, rules in acls.items():
            if pattern.pattern_type == PatternType.PREFIXED:
                self._prefixed[(pattern.resource_type, pattern.name)] = rules
                lengths.setdefault(pattern.resource_type, set()).add(len(pattern.name))
            else:
                self._literal[(pattern.resource_type, pattern.name)] = rules
        self._lengths = {kind: sorted(found) for kind, found in lengths.items()}

    def about(self, resource_type: int, name: str) -> Iterator[Rules]:
        """The rules of each pattern that the resource matches."""
        found = self._literal.get((resource_type, name))
        if found:
            yield found
        found = self._literal.get((resource_type, ANYTHING)) if name != ANYTHING else None
        if found:
            yield found
        for length in self._lengths.get(resource_type, ()):
            if length > len(name):
                break
            found = self._prefixed.get((resource_type, name[:length]))
            if found:
                yield found

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, name: str, *, without_rules: bool
    ) -> bool:
        is_allowed = False
        has_rules = False
        implying = _IMPLYING.get(operation, _NONE)
        for rules in self.about(resource_type, name):
            has_rules = True
            for rule in rules:
                if not _is_for(rule, principal, host):
                    continue
                is_same = rule.operation in (operation, Operation.ALL)
                if rule.permission == Permission.DENY:
                    if is_same:
                        return False
                elif is_same or rule.operation in implying:
                    is_allowed = True
        return is_allowed or (without_rules and not has_rules)

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int, *, without_rules: bool) -> bool:
        """Whether there is some name for which the operation is allowed: rules that allow it, and none that takes all
        of it back.
        """
        allowed: list[Pattern] = []
        denied: set[tuple[int, str]] = set()
        for pattern, rules in self._patterns.items():
            if pattern.resource_type != resource_type:
                continue
            for rule in rules:
                if rule.operation not in (operation, Operation.ALL) or not _is_for(rule, principal, host):
                    continue
                if rule.permission == Permission.DENY:
                    if pattern.pattern_type == PatternType.LITERAL and pattern.name == ANYTHING:
                        return False
                    denied.add((pattern.pattern_type, pattern.name))
                else:
                    allowed.append(pattern)
        if without_rules:
            return True
        return any(not _is_taken_back(pattern, denied) for pattern in allowed)


def _is_taken_back(pattern: Pattern, denied: set[tuple[int, str]]) -> bool:
    if pattern.pattern_type == PatternType.LITERAL:
        if pattern.name == ANYTHING:
            return False
        if (PatternType.LITERAL, pattern.name) in denied:
            return True
    return any((PatternType.PREFIXED, pattern.name[:length]) in denied for length in range(1, len(pattern.name) + 1))


def _is_for(rule: Rule, principal: str, host: str) -> bool:
    return rule.principal in (principal, ANYONE) and rule.host in (host, ANYTHING)


def count(acls: Iterable[Rules]) -> int:
    return sum(len(rules) for rules in acls)
