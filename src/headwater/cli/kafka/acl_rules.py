"""What `kafka-acls` does: rules and filters out of options, and rules as Kafka's tool prints them."""

import sys
from collections.abc import Iterable
from typing import Final

from headwater.cli.kafka.options import Options, Stop, Usage
from headwater.client.admin.acls import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPermission,
    AclResourceType,
    PatternType,
)
from headwater.client.admin.blocking import Admin

_CLUSTER: Final = "kafka-cluster"
_ACTIONS: Final = ("add", "remove", "list")
_NAMED: Final = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional-id": AclResourceType.TRANSACTIONAL_ID,
    "delegation-token": AclResourceType.DELEGATION_TOKEN,
    "user-principal": AclResourceType.USER,
}
Resource = tuple[AclResourceType, str]


def carry_out(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected

    actions = [action for action in _ACTIONS if action in options]
    if len(actions) != 1:
        raise Usage("Command must include exactly one action: --list, --add, --remove. ")
    _refuse_without_effect(options)
    pattern = _pattern_of(options)
    wanted = [] if actions == ["list"] else _wanted(options)
    with connected(options) as admin:
        if actions == ["add"]:
            if pattern not in (PatternType.LITERAL, PatternType.PREFIXED):
                raise Usage("A '--resource-pattern-type' value of 'Any' or 'Match' is not valid when adding acls.")
            rules = [_rule(resource, given, pattern) for resource, given in wanted]
            _print("Adding ACLs for", rules)
            _check(admin.create_acls(rules))
        elif actions == ["remove"]:
            _remove(admin, options, wanted, pattern)
        _list(admin, options, pattern if "resource-pattern-type" in options else None)
    return 0


def _refuse_without_effect(options: Options) -> None:
    """What would change nothing of the action, so that other rules would be touched than were meant."""
    roles = ("producer", "consumer")
    options.refuse_together("list", *roles, "allow-host", "allow-principal", "deny-host", "deny-principal")
    for role in roles:
        options.refuse_together(role, "operation", "deny-principal", "deny-host")
    if "principal" in options and "list" not in options:
        raise Usage("The --principal option is only available if --list is set")
    if "idempotent" in options and "producer" not in options:
        raise Usage("The --idempotent option is only available if --producer is set")
    if "consumer" in options and "producer" not in options and ("cluster" in options or "transactional-id" in options):
        raise Usage(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option "
            "should be specified."
        )


Given = tuple[str, str, AclOperation, AclPermission]  # principal, host, operation, permission


def _rule(resource: Resource, given: Given, pattern: PatternType) -> AclBinding:
    principal, host, operation, permission = given
    return AclBinding(resource[0], resource[1], principal, operation, permission, host, pattern)


def _pattern_of(options: Options) -> PatternType:
    text = options.get("resource-pattern-type", "literal") or ""
    found = PatternType.__members__.get(text.upper(), PatternType.UNKNOWN)
    if found is PatternType.UNKNOWN:
        raise Usage(f"Invalid resource-pattern-type {text}: literal, prefixed, any or match")
    return found


def _resources(options: Options) -> list[Resource]:
    found = [(kind, name) for option, kind in _NAMED.items() for name in options.all(option)]
    if "cluster" in options:
        found.append((AclResourceType.CLUSTER, _CLUSTER))
    return found


def _operations(options: Options) -> list[AclOperation]:
    found = []
    for text in options.all("operation") or ["All"]:
        spelled = "".join(f"_{c}" if c.isupper() and at else c for at, c in enumerate(text)).upper()
        name = spelled if spelled in AclOperation.__members__ else text.upper()
        if name not in AclOperation.__members__ or name in ("ANY", "UNKNOWN"):
            raise Usage(f"Invalid operation {text}")
        found.append(AclOperation.__members__[name])
    return found


def _principals(options: Options) -> list[tuple[str, str, AclPermission]]:
    """With their hosts, and whether they are allowed or denied."""
    found = []
    for name, host, permission in (
        ("allow-principal", "allow-host", AclPermission.ALLOW),
        ("deny-principal", "deny-host", AclPermission.DENY),
    ):
        found += [(who, where, permission) for who in options.all(name) for where in options.all(host) or ["*"]]
    return found


def _wanted(options: Options) -> list[tuple[Resource, Given]]:
    """What --add and --remove name. Without principals, --remove means all rules of the resources."""
    principals = _principals(options)
    if not principals and "add" in options:
        raise Usage("Must specify one of: --allow-principal, --deny-principal when trying to add ACLs.")
    needed: list[tuple[Resource, AclOperation]] = []
    if "producer" in options or "consumer" in options:
        needed = _of_roles(options)
    else:
        resources = _resources(options)
        if not resources:
            raise Usage(
                "You must specify at least one resource: --topic <topic> or --cluster or --group <group> "
                "or --transactional-id <id> or --delegation-token <token> or --user-principal <user>"
            )
        needed = [(resource, operation) for resource in resources for operation in _operations(options)]
    return [
        (resource, (who, host, operation, permission))
        for resource, operation in needed
        for who, host, permission in principals or [("", "", AclPermission.ANY)]
    ]


def _of_roles(options: Options) -> list[tuple[Resource, AclOperation]]:
    topics = [(AclResourceType.TOPIC, name) for name in options.all("topic")]
    groups = [(AclResourceType.GROUP, name) for name in options.all("group")]
    if not topics:
        raise Usage("With --producer and --consumer, you must specify a --topic")
    if "consumer" in options and not groups:
        raise Usage("With --consumer you must specify a --group")
    needed: list[tuple[Resource, AclOperation]] = []
    if "producer" in options:
        ids = [(AclResourceType.TRANSACTIONAL_ID, name) for name in options.all("transactional-id")]
        for topic in topics:
            needed += [(topic, AclOperation.WRITE), (topic, AclOperation.DESCRIBE), (topic, AclOperation.CREATE)]
        for each in ids:
            needed += [(each, AclOperation.WRITE), (each, AclOperation.DESCRIBE)]
        if "idempotent" in options:
            needed.append(((AclResourceType.CLUSTER, _CLUSTER), AclOperation.IDEMPOTENT_WRITE))
    if "consumer" in options:
        for topic in topics:
            needed += [(topic, AclOperation.READ), (topic, AclOperation.DESCRIBE)]
        needed += [(group, AclOperation.READ) for group in groups]
    return list(dict.fromkeys(needed))


def _remove(admin: Admin, options: Options, wanted: list[tuple[Resource, Given]], pattern: PatternType) -> None:
    filters = []
    for (kind, name), (who, host, operation, permission) in wanted:
        if who:
            filters.append(AclFilter(kind, name, who, operation, permission, host, pattern))
        elif "operation" in options:
            filters.append(AclFilter(kind, name, operation=operation, pattern_type=pattern))
        else:
            filters.append(AclFilter(kind, name, pattern_type=pattern))
    filters = list(dict.fromkeys(filters))
    if "force" not in options:
        sys.stdout.write(f"Are you sure you want to remove the ACLs of {len(filters)} filter(s)? (y/n)\n")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() != "y":
            return
    _check(admin.delete_acls(filters))


def _check(outcome: object) -> None:
    from headwater.base.errors import KafkaError
    from headwater.cli.kafka.exits import java_text

    assert isinstance(outcome, dict)
    for problem in outcome.values():
        if isinstance(problem, KafkaError):
            raise Stop(1, f"Error while executing ACL command: {java_text(problem)}")


def _list(admin: Admin, options: Options, pattern: PatternType | None) -> None:
    resources = _resources(options)
    found: list[AclBinding] = []
    how = pattern or PatternType.ANY
    filters = [AclFilter(kind, name, pattern_type=how) for kind, name in resources]
    for each in filters or [AclFilter(pattern_type=how)]:
        found += admin.describe_acls(each)
    principals = options.all("principal")
    if principals:
        found = [rule for rule in found if rule.principal in principals]
    _print("Current ACLs for", sorted(set(found)))


def _print(what: str, rules: Iterable[AclBinding]) -> None:
    by_resource: dict[tuple[AclResourceType, str, PatternType], list[AclBinding]] = {}
    for rule in rules:
        by_resource.setdefault((rule.resource_type, rule.resource_name, rule.pattern_type), []).append(rule)
    for (kind, name, pattern), some in by_resource.items():
        resource = f"ResourcePattern(resourceType={kind.name}, name={name}, patternType={pattern.name})"
        lines = [
            f"\t(principal={rule.principal}, host={rule.host}, operation={rule.operation.name}, "
            f"permissionType={rule.permission.name})"
            for rule in some
        ]
        sys.stdout.write(f"{what} resource `{resource}`: \n " + "\n ".join(lines) + " \n\n")
