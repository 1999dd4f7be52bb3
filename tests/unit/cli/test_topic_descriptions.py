"""What `kafka-topics --describe` shows of partitions that move, and which partitions its filters let through."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka import topics
from headwater.cli.kafka.options import Options
from headwater.client.admin import Admin
from headwater.client.admin.replication import Reassignment
from headwater.client.types import ConfigEntry, Partition, Topic

MOVING = Partition("t", 0, 1, 0, [3, 4, 1, 2], [1, 2], [])
SETTLED = Partition("t", 1, -1, 0, [1, 2], [1, 2], [])
MOVE = Reassignment([3, 4, 1, 2], [3, 4], [1, 2])


def described(
    capsys: pytest.CaptureFixture[str], *filters: str, partitions: tuple[Partition, ...] = (MOVING, SETTLED), moves: Any
) -> list[str]:
    def moving(_: object) -> dict[TopicPartition, Reassignment]:
        if isinstance(moves, KafkaError):
            raise moves
        return cast(dict[TopicPartition, Reassignment], moves)

    entry = ConfigEntry("min.insync.replicas", "1", "default", False, False, "int", None)
    admin = SimpleNamespace(
        list_topics=lambda **_: [Topic("t", bytes(16), False, list(partitions))],
        describe_configs=lambda resources: {resources[0]: [entry]},
        list_partition_reassignments=moving,
        session=SimpleNamespace(view=SimpleNamespace(brokers=[1, 2, 3, 4])),
    )
    topics._describe(cast(Admin, admin), Options({name: [None] for name in filters}))
    return capsys.readouterr().out.splitlines()


def test_a_partition_that_moves_shows_where_to(capsys: pytest.CaptureFixture[str]) -> None:
    head, first, second = described(capsys, moves={TopicPartition("t", 0): MOVE})
    assert "\tPartitionCount: 2\tReplicationFactor: 2\t" in head
    assert first == (
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 3,4,1,2\tIsr: 1,2\tAdding Replicas: 3,4\tRemoving Replicas: 1,2"
        "\tElr: \tLastKnownElr: "
    )
    assert second.endswith("\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: ")


def test_replicas_that_a_move_adds_are_not_missing(capsys: pytest.CaptureFixture[str]) -> None:
    """Each partition that moved was told as under-replicated, whether or not one of its own replicas lagged."""
    moves = {TopicPartition("t", 0): MOVE}
    assert described(capsys, "under-replicated-partitions", moves=moves) == []
    lagging = MOVING._replace(in_sync_replicas=[1])
    (line,) = described(capsys, "under-replicated-partitions", partitions=(lagging,), moves=moves)
    assert "Isr: 1\t" in line
    (line,) = described(capsys, "under-replicated-partitions", moves={})
    assert "\tReplicas: 3,4,1,2\tIsr: 1,2\tElr: " in line


def test_a_partition_without_a_leader_is_below_the_minimum(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = described(capsys, "under-min-isr-partitions", moves={})
    assert "\tPartition: 1\tLeader: none\t" in line


@pytest.mark.parametrize("code", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION])
def test_who_may_not_see_moves_is_shown_the_rest(capsys: pytest.CaptureFixture[str], code: ErrorCode) -> None:
    assert len(described(capsys, moves=KafkaError(code, "no"))) == 3
    with pytest.raises(KafkaError):
        described(capsys, moves=KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "no"))
