"""Configs of brokers: who may do what."""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, Importance

_LOW: Final = Importance.LOW

# fmt: off
DEFINITIONS: Final[tuple[Definition, ...]] = (
    Definition("authorizer.class.name", ConfigType.STRING, "", "The authorizer: Apache Kafka's StandardAuthorizer, by that or an older name. Without one everybody may do everything.", importance=_LOW),
    Definition("super.users", ConfigType.STRING, "", "Principals that may do everything, as User:a;User:b. The brokers' own belong here, or have CLUSTER_ACTION.", importance=_LOW),
    Definition("allow.everyone.if.no.acl.found", ConfigType.BOOLEAN, False, "Whether everybody may do everything with a resource that no access rule is about.", importance=_LOW),
)
# fmt: on
