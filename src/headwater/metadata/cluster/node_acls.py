"""Who may do what with a node in ZooKeeper, where they are secured (`zookeeper.set.acl`): Apache Kafka's rules.

A node belongs to who made it. Everybody may read it, but for those that hold passwords or what is made of them. The
nodes of old consumers stay open, since each of them writes there. Paths are those below the chroot.
"""

from enum import Enum
from typing import Final

from headwater.metadata.cluster import layout


class Rights(Enum):
    """Beside those of its maker, who may do all."""

    ANYBODY_ALL = "anybody may do all"
    ANYBODY_READS = "anybody may read"
    NOBODY = "nobody else may do anything"


CONSUMERS: Final = "/consumers"
SENSITIVE_ROOTS: Final = (
    layout.USER_CONFIGS,
    layout.BROKER_CONFIGS,
    "/delegation_token/tokens",
    layout.CHANGES,  # ours: whatever is written elsewhere passes here, SCRAM credentials too
)
SECURED_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    layout.CONTROLLER,
    layout.CONTROLLER_EPOCH,
    "/isr_change_notification",
    layout.PRODUCER_IDS,
    "/log_dir_event_notification",
    "/delegation_token",
    "/kafka-acl-extended",
    "/migration",
    "/feature",
    layout.ACLS,
    layout.ACL_CHANGES,
    layout.EXTENDED_ACL_CHANGES,
    "/headwater",
)
"""What `zookeeper-security-migration` changes, with all that is below; and our own."""


def rights_of(path: str) -> Rights:
    if path == CONSUMERS:
        return Rights.ANYBODY_ALL
    return Rights.NOBODY if path.startswith(SENSITIVE_ROOTS) else Rights.ANYBODY_READS
