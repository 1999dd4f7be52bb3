"""The one table of configs: `BROKER` and `TOPIC`, by name."""

from typing import Final

from headwater.base.config import (
    broker_log,
    broker_network,
    broker_quotas,
    broker_replication,
    broker_rights,
    broker_security,
    broker_unused,
    broker_zookeeper,
    topic,
)
from headwater.base.config.definition import Definition

BROKER: Final[dict[str, Definition]] = {
    definition.name: definition
    for definitions in (
        broker_network.DEFINITIONS,
        broker_log.DEFINITIONS,
        broker_replication.DEFINITIONS,
        broker_security.DEFINITIONS,
        broker_rights.DEFINITIONS,
        broker_quotas.DEFINITIONS,
        broker_zookeeper.DEFINITIONS,
        broker_unused.DEFINITIONS,
    )
    for definition in definitions
}

TOPIC: Final[dict[str, Definition]] = {definition.name: definition for definition in topic.DEFINITIONS}
