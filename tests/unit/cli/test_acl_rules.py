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
