"""What is known of a store before it is opened: the bytes below (`stores.spec`), the serdes above, and its changelog
topic.
"""

from dataclasses import dataclass, field
from typing import Final

from headwater.streams.serdes.port import Serde
from headwater.streams.stores.formats import LONG_MAX
from headwater.streams.stores.spec import StoreKind, StoreSpec

ADDITIONAL_RETENTION_MS: Final = 24 * 60 * 60 * 1000  # windowstore.changelog.additional.retention.ms

REPARTITION_CONFIG: Final = {
    "cleanup.policy": "delete",
    "segment.bytes": "52428800",
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
}


@dataclass(slots=True)
class InternalTopicSettings:
    """What an application says of all topics that it makes: `topic.*`, `replication.factor` (-1: the brokers' own) and
    `windowstore.changelog.additional.retention.ms`.
    """

    config: dict[str, str] = field(default_factory=dict)
    replication_factor: int = -1
    additional_retention_ms: int = ADDITIONAL_RETENTION_MS

    def repartition_config(self) -> dict[str, str]:
        return REPARTITION_CONFIG | self.config


@dataclass(slots=True)
class StorePlan:
    """A store of each task of a sub-topology. `key` and `value` are None where the application's defaults serve."""

    spec: StoreSpec
    key: Serde | None = None
    value: Serde | None = None
    caching: bool = False
    buffer: bool = False  # what `suppress` holds back
    source_topic: str | None = None  # restored from this topic instead of a changelog: global stores

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def versioned(self) -> bool:
        return self.spec.kind is StoreKind.VERSIONED

    def changelog_topic(self, application_id: str) -> str | None:
        """The topic that restores the store; None if nothing does."""
        if self.source_topic is not None:
            return self.source_topic
        return f"{application_id}-{self.name}-changelog" if self.spec.logged else None

    def changelog_config(self, settings: InternalTopicSettings | None = None) -> dict[str, str]:
        """The settings that Kafka Streams gives the changelog topic: what the store says goes before what the
        application says of all, but how long it is kept follows from the windows and versions, or the store alone.
        """
        settings = settings or InternalTopicSettings()
        is_windowed = self.spec.kind in (StoreKind.WINDOW, StoreKind.SESSION)
        policy = "compact,delete" if is_windowed else "compact"
        config = {"message.timestamp.type": "CreateTime", "cleanup.policy": policy} | settings.config
        if is_windowed:
            config["retention.ms"] = str(min(self.spec.retention_ms + settings.additional_retention_ms, LONG_MAX))
        elif self.versioned:
            config["min.compaction.lag.ms"] = str(min(self.spec.retention_ms + ADDITIONAL_RETENTION_MS, LONG_MAX))
        return config | self.spec.changelog_config
