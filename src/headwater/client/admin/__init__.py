"""Looking after a cluster: `Admin` (synchronous) and `AsyncAdmin` (asyncio), over one set of coroutines.

    call_routing            where a call goes, and for how long it is tried
    topics, records, configs, cluster, log_dirs, replication, groups, members, committed, transactions, acls, quotas, scram
                            the calls by what they are about, with the types of their results
    calls, blocking, aio    how they become methods

The names below load when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

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

_WHERE: Final = {
    "Admin": "blocking",
    "AsyncAdmin": "aio",
    "NewPartitions": "topics",
    "TopicPartitions": "topics",
    "EligiblePartition": "topics",
    "ConfigOperation": "configs",
    "ConfigChange": "configs",
    "Features": "cluster",
    "FeatureUpdate": "cluster",
    "UpgradeType": "cluster",
    "Replica": "log_dirs",
    "ElectionType": "replication",
    "Reassignment": "replication",
    "GroupListing": "groups",
    "GroupMember": "groups",
    "GroupDescription": "groups",
    "MemberToRemove": "members",
    "Committed": "committed",
    "TransactionListing": "transactions",
    "TransactionDescription": "transactions",
    "ActiveProducer": "transactions",
    "FencedProducer": "transactions",
    "AclBinding": "acls",
    "AclFilter": "acls",
    "AclOperation": "acls",
    "AclPermission": "acls",
    "AclResourceType": "acls",
    "PatternType": "acls",
    "QuotaEntity": "quotas",
    "quota_entity": "quotas",
    "ScramMechanism": "scram",
    "ScramCredentialInfo": "scram",
    "ScramUpsertion": "scram",
    "ScramDeletion": "scram",
}


def __getattr__(name: str) -> Any:
    module = _WHERE.get(name)
    if module is None:
        raise AttributeError(f"headwater.client.admin has no {name!r}")
    return getattr(import_module(f"headwater.client.admin.{module}"), name)
