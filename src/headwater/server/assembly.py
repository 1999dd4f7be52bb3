"""Puts a broker together on given ports: what the server does with the kernel, the simulation does with a heap of events.

The order matters. The metadata file says which topics there should be; the log directories say which there are. A directory
that the metadata does not know was written by Apache Kafka (or by us, before the metadata was lost): it is adopted, with
its topic id. A topic that was deleted just before a crash may have left directories: they are known by their id and removed.
"""

import base64
import logging
from collections.abc import Sequence

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId
from headwater.base.ports import Clock, Disk, Random, Scheduler
from headwater.broker.broker import Broker
from headwater.log.manager import LogManager
from headwater.metadata.image import Change, ClusterImage, TopicCreated
from headwater.server.stores.embedded import EmbeddedStore

logger = logging.getLogger("headwater.server")


def open_broker(
    config: BrokerConfig, *, disk: Disk, clock: Clock, random: Random, scheduler: Scheduler
) -> tuple[Broker, EmbeddedStore]:
    """A broker with its logs open and recovered, that no client can reach yet."""
    raise NotImplementedError
