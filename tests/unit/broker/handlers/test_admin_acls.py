"""DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.wire.messages.create_acls import AclCreation, CreateAclsRequest
from headwater.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from headwater.wire.messages.describe_acls import DescribeAclsRequest

ANY = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_there_are_no_rules_to_describe(lab: Any, version: int) -> None:
    request = DescribeAclsRequest(resource_type_filter=2, resource_name_filter=None, pattern_type_filter=1, **ANY)
    answer = lab.ask(request, version)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
    assert answer.error_message == "No Authorizer is configured on the broker"
    assert answer.resources == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_each_rule_and_each_filter_has_its_own_refusal(lab: Any, version: int) -> None:
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3)
    created = lab.ask(CreateAclsRequest(creations=[rule, rule]), version)
    refused = (int(ErrorCode.SECURITY_DISABLED), "No Authorizer is configured.")
    assert [(each.error_code, each.error_message) for each in created.results] == [refused, refused]
    a_filter = DeleteAclsFilter(resource_type_filter=2, resource_name_filter=None, pattern_type_filter=1, **ANY)
    deleted = lab.ask(DeleteAclsRequest(filters=[a_filter]), version)
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [refused]
