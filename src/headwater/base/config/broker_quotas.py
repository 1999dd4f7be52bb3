"""Configs of brokers: over which time quotas measure. The quotas themselves are in the metadata (`kafka-configs
--entity-type users|clients|ips`).
"""

from typing import Final

from headwater.base.config.definition import ConfigType, Definition, Importance
from headwater.base.config.validators import AtLeast

_INT: Final = ConfigType.INT
_LOW: Final = Importance.LOW

# fmt: off
DEFINITIONS: Final[tuple[Definition, ...]] = (
    Definition("quota.window.num", _INT, 11, "How many windows the rates of client quotas are measured over.", AtLeast(1), importance=_LOW),
    Definition("quota.window.size.seconds", _INT, 1, "How long each of these windows is. Nobody waits longer than one for a quota of request percentage or of connections.", AtLeast(1), importance=_LOW),
    Definition("controller.quota.window.num", _INT, 11, "How many windows' worth of changes (controller_mutation_rate) can be saved up.", AtLeast(1), importance=_LOW),
    Definition("controller.quota.window.size.seconds", _INT, 1, "How long each of these windows is.", AtLeast(1), importance=_LOW),
)
# fmt: on
