"""`kafka-acls`: adds, removes and lists access rules. What it does is read when it is known what was typed
(`acl_rules.py`).
"""

from collections.abc import Sequence
from typing import Final, NoReturn

from headwater.cli.kafka.options import BOOTSTRAP, COMMAND_CONFIG, Option, Options, run, run_with

ABOUT: Final = "This tool helps to manage acls on kafka."
OPTIONS: Final = (
    BOOTSTRAP,
    COMMAND_CONFIG,
    Option("add", "Add ACLs."),
    Option("remove", "Remove ACLs."),
    Option("list", "List ACLs of the given resources; of all, if none is given."),
    Option("topic", "Topic to which ACLs should be added or removed. * means all topics.", "topic"),
    Option("group", "Consumer group to which ACLs should be added or removed. * means all groups.", "group"),
    Option("cluster", "Add or remove ACLs of the cluster."),
    Option("transactional-id", "The transactional id of the ACLs. * means all.", "transactional-id"),
    Option("delegation-token", "The delegation token of the ACLs. * means all.", "delegation-token"),
    Option("user-principal", "The user whose tokens the ACLs are about. * means all.", "user-principal"),
    Option(
        "resource-pattern-type",
        "How the names are meant: literal or prefixed; for --list and --remove also any or match.",
        "ANY|MATCH|LITERAL|PREFIXED",
    ),
    Option("operation", "Operation that is allowed or denied; All if none is given.", "String"),
    Option("allow-principal", "Principal that is allowed, as User:name; User:* means all.", "allow-principal"),
    Option("deny-principal", "Principal that is denied.", "deny-principal"),
    Option("principal", "Principal by which to list.", "principal"),
    Option("allow-host", "Host from which the allowed principals have access; * means all.", "allow-host"),
    Option("deny-host", "Host from which the denied principals have none.", "deny-host"),
    Option("producer", "Convenience: WRITE, DESCRIBE and CREATE on the topics, and what transactional ids need."),
    Option("consumer", "Convenience: READ and DESCRIBE on the topics, READ on the groups."),
    Option("idempotent", "Convenience: IDEMPOTENT_WRITE on the cluster, for --producer."),
    Option("force", "Ask nothing before rules are removed."),
)


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.acl_rules import carry_out

    return carry_out(options)
