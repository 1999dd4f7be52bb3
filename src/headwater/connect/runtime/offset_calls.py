"""The offsets of a connector, read, set and deleted as KIP-875 has it: a source's in the store, a sink's in its
group.

A sink's connector changes its target first, then the group follows. A task that hangs is in the group although its
connector is stopped, and the group would refuse: so that is looked for before, and the target stays as it is.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import Admin
from headwater.connect.api import SinkConnector, SourceConnector
from headwater.connect.config.secrets import forms_of, redacted, secrets_in
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Kind
from headwater.connect.runtime.offset_pairs import SourcePair, pairs_of, sink_offsets
from headwater.connect.runtime.sink import group_of

if TYPE_CHECKING:
    from headwater.client.admin.committed import Committed
    from headwater.connect.runtime.herder import Running
    from headwater.connect.runtime.worker import Worker

logger = logging.getLogger("headwater.connect")
_NO_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND})


class OffsetCalls:
    def __init__(self, worker: "Worker") -> None:
        self._worker = worker

    def read(self, found: "Running") -> list[dict[str, Any]]:
        if found.plugin.kind is Kind.SOURCE:
            known = self._worker.offsets_of(found.name, found.config).all()
            return [{"partition": partition, "offset": offset} for partition, offset in known]
        with self._worker.admin(found.config) as admin:
            offsets = _committed(admin, self._group(found))
        return [
            {
                "partition": {"kafka_topic": each.topic, "kafka_partition": each.partition},
                "offset": {"kafka_offset": at.offset},
            }
            for each, at in sorted(offsets.items())
        ]

    def alter(self, found: "Running", body: Any) -> str:
        pairs = pairs_of(body)
        checked = (
            self._alter_source(found, pairs) if found.plugin.kind is Kind.SOURCE else self._alter_sink(found, pairs)
        )
        if checked:
            return "The offsets for this connector have been altered successfully"
        return (
            "The Connect framework-managed offsets for this connector have been altered successfully. However, if this connector "
            "manages offsets externally, they will need to be manually altered in the system that the connector uses."
        )

    def reset(self, found: "Running") -> str:
        if found.plugin.kind is Kind.SOURCE:
            offsets = self._worker.offsets_of(found.name, found.config)
            pairs: list[SourcePair] = [(partition, None) for partition, _ in offsets.all()]
            checked = self._ask_source(found, pairs)
            offsets.write(pairs)
        else:
            with self._worker.admin(found.config) as admin:
                _require_empty(
                    admin, self._group(found), f"Failed to reset consumer group offsets for connector {found.name}"
                )
                known = [TopicPartition(*each) for each in _committed(admin, self._group(found))]
                checked = self._asked(found, self._sink(found).reset_offsets, known)
                for outcome in admin.delete_groups([self._group(found)]).values():
                    if isinstance(outcome, KafkaError) and outcome.code not in _NO_GROUP:
                        raise ConnectError(
                            f"Failed to reset consumer group offsets for connector {found.name}: {outcome}"
                        )
        if checked:
            return "The offsets for this connector have been reset successfully"
        return (
            "The Connect framework-managed offsets for this connector have been reset successfully. However, if this connector "
            "manages offsets externally, they will need to be manually reset in the system that the connector uses."
        )

    def _group(self, found: "Running") -> str:
        return found.config.get("consumer.override.group.id") or group_of(found.name)

    def _ask_source(self, found: "Running", pairs: Sequence[SourcePair]) -> bool:
        connector = found.plugin.make()
        assert isinstance(connector, SourceConnector)
        return self._asked(found, connector.alter_offsets, pairs)

    def _sink(self, found: "Running") -> SinkConnector:
        connector = found.plugin.make()
        assert isinstance(connector, SinkConnector)
        if connector.needs_spark:
            connector.spark = self._worker.spark.session
        return connector

    def _ask_sink(self, found: "Running", offsets: Mapping[TopicPartition, int | None]) -> bool:
        return self._asked(found, self._sink(found).alter_offsets, offsets)

    def _asked(self, found: "Running", method: Callable[..., Any], offsets: Any) -> bool:
        """What the connector raises is a 500 with its sentence, as Kafka Connect answers; nothing secret is in it."""
        given: set[str] = set()
        props = self._worker.providers.resolved(found.config, given)
        try:
            return bool(self._worker.call(method, props, offsets))
        except NotImplementedError:
            raise ConnectError(
                f"Failed to modify offsets for connector {found.name} because it doesn't support external modification of offsets"
            ) from None
        except Exception as error:  # noqa: BLE001 - a plugin's, whatever it is
            secrets = secrets_in(found.config, props, found.definition) | forms_of(given)
            why = redacted(str(error), secrets)
            logger.warning("event=offsets-refused connector=%r error=%r", found.name, why[:2000])
            if isinstance(error, ConnectError):
                raise ConnectError(why) from None
            raise ConnectError(
                f"Failed to modify offsets for {found.plugin.kind} connector {found.name}: {type(error).__name__}: {why}"
            ) from None

    def _alter_source(self, found: "Running", pairs: Sequence[SourcePair]) -> bool:
        checked = self._ask_source(found, pairs)
        self._worker.offsets_of(found.name, found.config).write(pairs)
        return checked

    def _alter_sink(self, found: "Running", pairs: list[SourcePair]) -> bool:
        offsets = sink_offsets(pairs)
        with self._worker.admin(found.config) as admin:
            group = self._group(found)
            wanted = {each: at for each, at in offsets.items() if at is not None}
            for each, why in _missing(admin, wanted):  # before a connector changes its target
                raise ConnectError(f"Failed to alter consumer group offsets for connector {found.name}: {each}: {why}")
            _require_empty(admin, group, f"Failed to alter consumer group offsets for connector {found.name}")
            checked = self._ask_sink(found, offsets)
            gone = [each for each, at in offsets.items() if at is None]
            try:
                outcomes = dict(admin.alter_group_offsets(group, wanted)) if wanted else {}
                if gone:
                    outcomes |= admin.delete_group_offsets(group, gone)
            except KafkaError as refusal:
                raise ConnectError(
                    f"Failed to alter consumer group offsets for connector {found.name}: {refusal}"
                ) from None
            for each, error in outcomes.items():
                if isinstance(error, KafkaError):
                    raise ConnectError(
                        f"Failed to alter consumer group offsets for connector {found.name}: {each}: {error}"
                    )
        return checked


def _require_empty(admin: Admin, group: str, refusal: str) -> None:
    described = admin.describe_groups([group])[group]
    if not isinstance(described, KafkaError) and described.is_active:
        raise ConnectError(
            f"{refusal}: its tasks have not stopped completely yet, or it was resumed meanwhile. While it is stopped, this may be "
            "tried again; if it never succeeds, a worker has a task that hangs, and must be restarted"
        )


def _committed(admin: Admin, group: str) -> "Mapping[TopicPartition, Committed]":
    """Of a group that is not known: none."""
    try:
        return admin.list_group_offsets(group)
    except KafkaError as error:
        if error.code in _NO_GROUP:
            return {}
        raise


def _missing(admin: Admin, partitions: Collection[TopicPartition]) -> Iterator[tuple[TopicPartition, KafkaError]]:
    """Those that are not there, or that nobody tells us of, and why."""
    topics = admin.describe_topics(sorted({each.topic for each in partitions}))
    for each in sorted(partitions):
        topic = topics[each.topic]
        if isinstance(topic, KafkaError):
            yield each, topic
        elif all(partition.partition != each.partition for partition in topic.partitions):
            yield each, KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
