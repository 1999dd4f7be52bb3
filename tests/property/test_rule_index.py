"""Whether access rules allow something: the index gives what looking through all rules gives."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.base.acls import ANYONE, Operation, Pattern, PatternType, Permission, ResourceType, Rule, Rules
from headwater.broker.rights.rule_index import RuleIndex

NAMES = ["", "a", "ab", "abc", "b", "b-1", "*"]
USERS = ["User:a", "User:b"]
HOSTS = ["10.0.0.1", "10.0.0.2"]
OPERATIONS = [
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALL,
]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

rules = st.builds(
    Rule,
    st.sampled_from([*USERS, ANYONE]),
    st.sampled_from([*HOSTS, "*"]),
    st.sampled_from(OPERATIONS),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
patterns = st.builds(
    Pattern,
    st.sampled_from(TYPES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(NAMES),
)
few, many = st.lists(rules, min_size=1, max_size=3), st.lists(rules, min_size=8, max_size=12)
acls = st.dictionaries(patterns, (few | many).map(tuple), max_size=5)


def is_about(pattern: Pattern, kind: int, name: str) -> bool:
    if pattern.resource_type != kind:
        return False
    if pattern.pattern_type == PatternType.PREFIXED:
        return name.startswith(pattern.name)
    return pattern.name in (name, "*")


def naive(acls: dict[Pattern, Rules], user: str, host: str, operation: int, kind: int, name: str, else_: bool) -> bool:
    about = [rule for pattern, found in acls.items() if is_about(pattern, kind, name) for rule in found]
    if not about:
        return else_
    mine = [rule for rule in about if rule.principal in (user, "User:*") and rule.host in (host, "*")]
    if any(r.permission == Permission.DENY and r.operation in (operation, Operation.ALL) for r in mine):
        return False
    wanted = {operation, Operation.ALL}
    if operation == Operation.DESCRIBE:
        wanted |= {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    if operation == Operation.DESCRIBE_CONFIGS:
        wanted |= {Operation.ALTER_CONFIGS}
    return any(r.permission == Permission.ALLOW and r.operation in wanted for r in mine)


@settings(max_examples=300, deadline=None)
@given(acls, st.sampled_from(OPERATIONS[:-1]), st.booleans())
def test_the_index_allows_what_the_rules_allow(acls: dict[Pattern, Rules], operation: int, without_rules: bool) -> None:
    index = RuleIndex(acls)
    for user in USERS:
        for host in HOSTS:
            for kind in TYPES:
                for name in NAMES:
                    found = index.allows(user, host, operation, kind, name, without_rules=without_rules)
                    assert found == naive(acls, user, host, operation, kind, name, without_rules), (user, host, name)


@settings(max_examples=300, deadline=None)
@given(acls)
def test_what_is_allowed_for_some_name_is_allowed_for_any(acls: dict[Pattern, Rules]) -> None:
    """`allows_any` may be told by rules alone: a name that nobody has tried counts too."""
    index = RuleIndex(acls)
    for user in USERS:
        is_allowed = index.allows_any(user, HOSTS[0], Operation.WRITE, ResourceType.TOPIC, without_rules=False)
        tried = any(
            naive(acls, user, HOSTS[0], Operation.WRITE, ResourceType.TOPIC, name, False)
            for name in [*NAMES, "abcd", "b-12", "z"]
        )
        assert is_allowed or not tried
