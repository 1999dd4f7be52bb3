"""`kafka-reassign-partitions` in front of a cluster that is made up: what it says, and what it asks for."""

import json
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka import connecting
from headwater.cli.kafka.reassign_partitions import script
from headwater.cli.reassignments import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, LOG_DIRS_RATE
from headwater.client.admin.replication import Reassignment
from headwater.client.types import Broker, ClusterInfo, ConfigResource, Partition, ResourceType, Topic

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


class MadeUp:
    """Brokers 1 to 3 and a topic of two partitions on 1 and 2; the answers that an admin client would give."""

    def __init__(self) -> None:
        self.moves: dict[TopicPartition, Reassignment] = {}
        self.asked: dict[TopicPartition, Any] = {}
        self.configs: dict[ConfigResource, Any] = {}
        self.refusals: dict[TopicPartition, KafkaError] = {}

    def describe_cluster(self) -> ClusterInfo:
        return ClusterInfo("id", 1, [Broker(number, "localhost", number) for number in (1, 2, 3)])

    def describe_topics(self, names: list[str]) -> dict[str, Any]:
        partitions = [Partition("t", at, 1, 0, [1, 2], [1, 2], []) for at in (0, 1)]
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {name: Topic("t", b"", False, partitions) if name == "t" else unknown for name in names}

    def describe_log_dirs(self, brokers: list[int]) -> list[Any]:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{brokers}")

    def list_partition_reassignments(self, partitions: Any = None) -> dict[TopicPartition, Reassignment]:
        return {each: move for each, move in self.moves.items() if partitions is None or each in partitions}

    def alter_partition_reassignments(self, wanted: Any) -> dict[TopicPartition, KafkaError | None]:
        self.asked.update(wanted)
        return {partition: self.refusals.get(partition) for partition in wanted}

    def alter_configs(self, changes: Any) -> dict[ConfigResource, None]:
        self.configs.update(changes)
        return dict.fromkeys(changes)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MadeUp:
    made = MadeUp()

    @contextmanager
    def connected(_options: object) -> Any:
        yield made

    monkeypatch.setattr(connecting, "connected", connected)
    return made


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    path = tmp_path / "plan.json"
    moves = [{"topic": "t", "partition": at, "replicas": [2, 3]} for at in (0, 1)]
    path.write_text(json.dumps({"version": 1, "partitions": moves}))

    def run_script(action: str, *more: str, code: int = 0) -> str:
        file = [] if action == "--list" else ["--reassignment-json-file", str(path)]
        assert script(["--bootstrap-server", "h:1", action, *file, *more]) == code
        return capsys.readouterr().out

    return run_script


def _moving(cluster: MadeUp) -> None:
    cluster.moves = {FIRST: Reassignment([2, 3, 1], [3], [1]), SECOND: Reassignment([1, 2, 3], [3], [])}


def test_moves_under_way_are_listed(cluster: MadeUp, run: Callable[..., str]) -> None:
    _moving(cluster)
    assert run("--list") == (
        "Current partition reassignments:\n"
        "t-0: replicas: 2,3,1. adding: 3. removing: 1.\n"
        "t-1: replicas: 1,2,3. adding: 3.\n"
    )


def test_while_something_moves_its_throttle_stays(cluster: MadeUp, run: Callable[..., str]) -> None:
    cluster.moves = {FIRST: Reassignment([2, 3, 1], [3], [1])}
    assert run("--verify") == (
        "Status of partition reassignment:\n"
        "Reassignment of partition t-0 is still in progress.\n"
        "There is no active reassignment of partition t-1, but replica set is 1,2 rather than 2,3.\n\n"
    )
    assert cluster.configs == {}


def test_once_nothing_moves_throttles_are_removed_everywhere(cluster: MadeUp, run: Callable[..., str]) -> None:
    said = run("--verify")
    assert said.endswith(
        "Clearing broker-level throttles on brokers 1,2,3\nClearing topic-level throttles on topic t\n"
    )
    rates = dict.fromkeys((LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE))
    assert cluster.configs == {
        ConfigResource(ResourceType.TOPIC, "t"): dict.fromkeys((LEADER_REPLICAS, FOLLOWER_REPLICAS)),
        **{ConfigResource(ResourceType.BROKER, str(number)): rates for number in (1, 2, 3)},
    }


def test_a_throttle_is_set_before_the_moves_are_asked_for(cluster: MadeUp, run: Callable[..., str]) -> None:
    cluster.refusals = {SECOND: KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no")}
    said = run("--execute", "--throttle", "5000", code=1)
    assert said.endswith(
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
        "removed.\nThe inter-broker throttle limit was set to 5000 B/s\nError reassigning partition(s):\nt-1: no\n"
    )
    assert cluster.configs[ConfigResource(ResourceType.TOPIC, "t")] == {
        LEADER_REPLICAS: "0:1,0:2,1:1,1:2",
        FOLLOWER_REPLICAS: "0:3,1:3",
    }
    assert cluster.configs[ConfigResource(ResourceType.BROKER, "3")] == {LEADER_RATE: "5000", FOLLOWER_RATE: "5000"}
    assert cluster.asked == {FIRST: [2, 3], SECOND: [2, 3]}


def test_nothing_is_added_to_moves_under_way_unless_asked_for(cluster: MadeUp, run: Callable[..., str]) -> None:
    _moving(cluster)
    assert run("--execute", code=1).startswith("Cannot execute because there is an existing partition assignment.")
    assert cluster.asked == {}
    assert run("--execute", "--additional").endswith("Successfully started partition reassignments for t-0,t-1\n")
    assert cluster.asked == {FIRST: [2, 3], SECOND: [2, 3]}


def test_only_what_moves_is_called_off(cluster: MadeUp, run: Callable[..., str]) -> None:
    cluster.moves = {FIRST: Reassignment([1, 2, 3], [3], [])}
    assert run("--cancel", "--preserve-throttles") == (
        "Successfully cancelled partition reassignment for: t-0\nNone of the specified partition moves are active."
    )
    assert cluster.asked == {FIRST: None}
    assert cluster.configs == {}
