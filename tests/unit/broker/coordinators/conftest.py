"""What tests of coordinators share: the only shard of the groups of a lab, which each of them makes as `shop`."""

from typing import Any

import pytest

from headwater.broker.coordinators.hosted import Hosted
from headwater.coordinator.groups.shard import GroupShard


@pytest.fixture(name="hosted")
def hosted_fixture(shop: Any) -> Hosted[GroupShard]:
    found: Hosted[GroupShard] = shop.broker.groups.runtime.hosted[0]
    return found
