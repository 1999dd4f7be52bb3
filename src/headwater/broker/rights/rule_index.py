"""Access rules, indexed by what they are about, and whether they allow something. Pure; the semantics are the
StandardAuthorizer's.

A rule that denies wins over all that allow. READ, WRITE, DELETE and ALTER imply DESCRIBE, and ALTER_CONFIGS implies
DESCRIBE_CONFIGS, where they are allowed and not where they are denied. Where no rule is about the resource at all, a
setting says what holds.
"""

from collections.abc import Iterable, Mapping
from typing import Final, cast

from headwater.base.acls import (
    ANYONE,
    ANYTHING,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    Rule,
    Rules,
)

_IMPLYING: Final[dict[int, frozenset[int]]] = {
    Operation.DESCRIBE: frozenset((Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
_NONE: Final[frozenset[int]] = frozenset()
_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)
_ALL: Final = int(Operation.ALL)
_EVERY: Final = -1
_DENY: Final = int(Permission.DENY)
_Key = tuple[int, int, str]  # a Pattern, or a tuple that is equal to it and faster to make


_GROUPED_FROM: Final = 8  # rules on one pattern: with fewer, looking at each is faster

# What the rules of one pattern say, and so of all that match: the greatest counts.
_NO_RULE, _NOT_MENTIONED, _ALLOWED, _DENIED = range(4)


class RuleIndex:
    """Of rules that do not change while it is used: those that change make a new one.

    To make one is cheap, since the first request behind a change of the rules waits for it: rules are found by their
    patterns as they are, and those of one pattern are grouped by principal when they are first asked for.
    """

    def __init__(self, acls: Mapping[Pattern, Rules]) -> None:
        self._acls = cast("Mapping[_Key, Rules]", acls)
        self._grouped: dict[_Key, dict[str, Rules]] = {}
        # Lengths of the prefixes that there are rules about, by type of resource; _EVERY stands for rules about all.
        self._wider: dict[int, list[int]] = {}
        for kind, length in sorted({(key[0], len(key[2])) for key in self._acls if key[1] == _PREFIXED}):
            self._wider.setdefault(kind, []).append(length)
        for kind in ResourceType:
            if (int(kind), _LITERAL, ANYTHING) in self._acls:
                self._wider.setdefault(int(kind), []).insert(0, _EVERY)

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, name: str, without_rules: bool
    ) -> bool:
        """The first request of each kind behind a change of the rules waits for this: no lists are made on the way."""
        key = (resource_type, _LITERAL, name)
        found = self._acls.get(key)
        verdict = _NO_RULE if found is None else self._verdict(found, key, principal, host, operation)
        if resource_type in self._wider and verdict != _DENIED:
            verdict = max(verdict, self._wider_verdict(principal, host, operation, resource_type, name))
        return verdict == _ALLOWED or (verdict == _NO_RULE and without_rules)

    def _wider_verdict(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> int:
        """What the rules about more than one resource say."""
        verdict = _NO_RULE
        for length in self._wider[resource_type]:
            if length > len(name) or verdict == _DENIED:
                break
            key = (resource_type, _PREFIXED, name[:length]) if length >= 0 else (resource_type, _LITERAL, ANYTHING)
            found = self._acls.get(key)
            if found is not None:
                verdict = max(verdict, self._verdict(found, key, principal, host, operation))
        return verdict

    def _verdict(self, rules: Rules, key: _Key, principal: str, host: str, operation: int) -> int:
        """What the rules of one pattern say."""
        verdict = _NOT_MENTIONED
        if len(rules) >= _GROUPED_FROM:
            rules = self._rules_for(principal, key)
        for who, where, what, permission in rules:
            if (who == principal or who == ANYONE) and (where == host or where == ANYTHING):  # noqa: SIM109
                is_same = what in (operation, _ALL)
                if permission == _DENY:
                    if is_same:
                        return _DENIED
                elif is_same or what in _IMPLYING.get(operation, _NONE):
                    verdict = _ALLOWED
        return verdict

    def _rules_for(self, principal: str, key: _Key) -> Rules:
        """Those that can be about the principal."""
        rules = self._acls[key]
        groups = self._grouped.get(key)
        if groups is None:
            by_principal: dict[str, list[Rule]] = {}
            for rule in rules:
                by_principal.setdefault(rule.principal, []).append(rule)
            groups = self._grouped[key] = {each: tuple(found) for each, found in by_principal.items()}
        return groups.get(principal, ()) + groups.get(ANYONE, ())

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int, *, without_rules: bool) -> bool:
        """Whether there is some name for which the operation is allowed: rules that allow it, and none that takes all
        of it back.
        """
        allowed: list[Pattern] = []
        denied: set[tuple[int, str]] = set()
        for key, rules in self._acls.items():
            if key[0] != resource_type:
                continue
            pattern = Pattern(*key)
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
