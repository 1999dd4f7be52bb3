import pytest

from headwater.metadata.cluster import layout
from headwater.metadata.cluster.node_acls import SECURED_ROOTS, Rights, rights_of


@pytest.mark.parametrize(
    ("path", "rights"),
    [
        ("/", Rights.ANYBODY_READS),
        ("/brokers/ids/1", Rights.ANYBODY_READS),
        ("/config/topics/orders", Rights.ANYBODY_READS),
        ("/config/changes/config_change_", Rights.ANYBODY_READS),
        ("/kafka-acl/Topic/orders", Rights.ANYBODY_READS),
        ("/config/users", Rights.NOBODY),
        ("/config/users/alice/clients/x", Rights.NOBODY),
        ("/config/brokers/<default>", Rights.NOBODY),
        ("/delegation_token/tokens/1", Rights.NOBODY),
        ("/headwater/changes/change-", Rights.NOBODY),
        ("/headwater/topics/abc", Rights.ANYBODY_READS),
        ("/consumers", Rights.ANYBODY_ALL),
    ],
)
def test_who_may_do_what(path: str, rights: Rights) -> None:
    assert rights_of(path) is rights


def test_every_node_of_ours_is_below_a_root_that_can_be_secured() -> None:
    for path, _ in layout.BASE_NODES:
        assert path.startswith(SECURED_ROOTS), path
