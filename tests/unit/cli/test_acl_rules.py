"""What `kafka-acls` refuses before it asks any broker."""

import pytest

from headwater.cli.kafka.acl_rules import carry_out
from headwater.cli.kafka.acls import OPTIONS
from headwater.cli.kafka.options import Usage, parse

_ADD = ["--bootstrap-server", "localhost:1", "--add", "--topic", "orders", "--allow-principal", "User:a"]


@pytest.mark.parametrize("name", ["Unknown", "Any", "Reed"])
def test_an_operation_that_no_rule_may_have_is_refused(name: str) -> None:
    with pytest.raises(Usage, match=f"Invalid operation {name}"):
        carry_out(parse([*_ADD, "--operation", name], OPTIONS))


@pytest.mark.parametrize("name", ["unknown", "prefix"])
def test_a_pattern_type_that_there_is_not_is_refused(name: str) -> None:
    with pytest.raises(Usage, match=f"Invalid resource-pattern-type {name}"):
        carry_out(parse([*_ADD, "--resource-pattern-type", name], OPTIONS))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("--remove --force --topic orders --principal User:bob", "--principal option is only available if --list"),
        ("--add --topic orders --allow-principal User:a --principal User:b", "--principal option is only available"),
        ("--list --allow-principal User:bob", r"\[list\].*\[allow-principal\]"),
        ("--list --topic orders --producer", r"\[list\].*\[producer\]"),
        ("--add --producer --topic orders --deny-principal User:bob", r"\[producer\].*\[deny-principal\]"),
        ("--remove --consumer --topic orders --group g --operation Read", r"\[consumer\].*\[operation\]"),
        ("--add --topic orders --idempotent --allow-principal User:a", "--idempotent option is only available"),
        ("--add --consumer --topic t --group g --cluster --allow-principal User:a", "no --cluster or --transactional"),
    ],
)
def test_what_would_have_no_effect_on_the_rules_is_refused(typed: str, said: str) -> None:
    """`--remove --principal User:bob` removed everybody's rules: --principal is for --list alone."""
    with pytest.raises(Usage, match=said):
        carry_out(parse(["--bootstrap-server", "localhost:1", *typed.split()], OPTIONS))
