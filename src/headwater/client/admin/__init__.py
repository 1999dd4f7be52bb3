"""Looking after a cluster: `Admin` (synchronous) and `AsyncAdmin` (asyncio), over one set of coroutines.

    call_routing            where a call goes, and for how long it is tried
    topics, records, configs, cluster, log_dirs, replication, groups, members, committed, transactions, acls, quotas,
    scram                   the calls by what they are about, with the types of their results
    calls, blocking, aio    how they become methods

The names below load when they are first used.
"""

from typing import TYPE_CHECKING

from headwater.base.lazy import lazy_names

if TYPE_CHECKING:
    from headwater.client.admin.acls import (
        AclBinding as AclBinding,
    )
    from headwater.client.admin.acls import (
        AclFilter as AclFilter,
    )
    from headwater.client.admin.acls import (
        AclOperation as AclOperation,
    )
    from headwater.client.admin.acls import (
        AclPermission as AclPermission,
    )
    from headwater.client.admin.acls import (
        AclResourceType as AclResourceType,
    )
    from headwater.client.admin.acls import (
        PatternType as PatternType,
    )
    from headwater.client.admin.aio import AsyncAdmin as AsyncAdmin
    from headwater.client.admin.blocking import Admin as Admin
    from headwater.client.admin.cluster import (
        Features as Features,
    )
    from headwater.client.admin.cluster import (
        FeatureUpdate as FeatureUpdate,
    )
    from headwater.client.admin.cluster import (
        UpgradeType as UpgradeType,
    )
    from headwater.client.admin.committed import Committed as Committed
    from headwater.client.admin.configs import ConfigChange as ConfigChange
    from headwater.client.admin.configs import ConfigOperation as ConfigOperation
    from headwater.client.admin.groups import (
        GroupDescription as GroupDescription,
    )
    from headwater.client.admin.groups import (
        GroupListing as GroupListing,
    )
    from headwater.client.admin.groups import (
        GroupMember as GroupMember,
    )
    from headwater.client.admin.log_dirs import Replica as Replica
    from headwater.client.admin.members import MemberToRemove as MemberToRemove
    from headwater.client.admin.quotas import QuotaEntity as QuotaEntity
    from headwater.client.admin.quotas import quota_entity as quota_entity
    from headwater.client.admin.replication import ElectionType as ElectionType
    from headwater.client.admin.replication import Reassignment as Reassignment
    from headwater.client.admin.scram import (
        ScramCredentialInfo as ScramCredentialInfo,
    )
    from headwater.client.admin.scram import (
        ScramDeletion as ScramDeletion,
    )
    from headwater.client.admin.scram import (
        ScramMechanism as ScramMechanism,
    )
    from headwater.client.admin.scram import (
        ScramUpsertion as ScramUpsertion,
    )
    from headwater.client.admin.topics import (
        EligiblePartition as EligiblePartition,
    )
    from headwater.client.admin.topics import (
        NewPartitions as NewPartitions,
    )
    from headwater.client.admin.topics import (
        TopicPartitions as TopicPartitions,
    )
    from headwater.client.admin.transactions import (
        ActiveProducer as ActiveProducer,
    )
    from headwater.client.admin.transactions import (
        FencedProducer as FencedProducer,
    )
    from headwater.client.admin.transactions import (
        TransactionDescription as TransactionDescription,
    )
    from headwater.client.admin.transactions import (
        TransactionListing as TransactionListing,
    )

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "headwater.client.admin.acls": (
            "AclBinding",
            "AclFilter",
            "AclOperation",
            "AclPermission",
            "AclResourceType",
            "PatternType",
        ),
        "headwater.client.admin.aio": ("AsyncAdmin",),
        "headwater.client.admin.blocking": ("Admin",),
        "headwater.client.admin.cluster": (
            "FeatureUpdate",
            "Features",
            "UpgradeType",
        ),
        "headwater.client.admin.committed": ("Committed",),
        "headwater.client.admin.configs": (
            "ConfigChange",
            "ConfigOperation",
        ),
        "headwater.client.admin.groups": (
            "GroupDescription",
            "GroupListing",
            "GroupMember",
        ),
        "headwater.client.admin.log_dirs": ("Replica",),
        "headwater.client.admin.members": ("MemberToRemove",),
        "headwater.client.admin.quotas": (
            "QuotaEntity",
            "quota_entity",
        ),
        "headwater.client.admin.replication": (
            "ElectionType",
            "Reassignment",
        ),
        "headwater.client.admin.scram": (
            "ScramCredentialInfo",
            "ScramDeletion",
            "ScramMechanism",
            "ScramUpsertion",
        ),
        "headwater.client.admin.topics": (
            "EligiblePartition",
            "NewPartitions",
            "TopicPartitions",
        ),
        "headwater.client.admin.transactions": (
            "ActiveProducer",
            "FencedProducer",
            "TransactionDescription",
            "TransactionListing",
        ),
    },
)
