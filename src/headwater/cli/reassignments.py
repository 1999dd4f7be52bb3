"""Moves of partitions between brokers, as Kafka's JSON files have them, and the throttles that go with them. Pure.

{"version": 1, "partitions": [{"topic": "foo", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "/disk2"]}]}
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headwater.base.ids import TopicPartition
from headwater.cli import json_fields

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
ANY_DIRECTORY: Final = "any"
_VERSION: Final = 1


class ReassignmentError(ValueError):
    """A file that cannot be used, in Kafka's words."""


class ReplicaPlace(NamedTuple):
    """A partition on a broker, in Kafka's order of them."""

    broker: int
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.broker}"


class Wanted(NamedTuple):
    """What a file asks for. A partition may stand there twice, which only `checked` refuses."""

    replicas: list[tuple[TopicPartition, list[int]]]
    directories: dict[ReplicaPlace, str]

    def checked(self) -> dict[TopicPartition, list[int]]:
        """For moves that are to be made, not only looked at."""
        if not self.replicas:
            raise ReassignmentError("Partition reassignment list cannot be empty")
        if not all(replicas for _, replicas in self.replicas):
            raise ReassignmentError("Partition replica list cannot be empty")
        twice = _duplicates([partition for partition, _ in self.replicas])
        if twice:
            raise ReassignmentError(f"Partition reassignment contains duplicate topic partitions: {_comma(twice)}")
        repeated = [(partition, _duplicates(replicas)) for partition, replicas in self.replicas]
        bad = ". ".join(f"{each} contains multiple entries for {_comma(again)}" for each, again in repeated if again)
        if bad:
            raise ReassignmentError(f"Partition replica lists may not contain duplicate entries: {bad}")
        return dict(self.replicas)


class Move(NamedTuple):
    """The brokers that a partition is copied from, and those that it is copied to."""

    sources: frozenset[int]
    destinations: frozenset[int]


def read_wanted(text: str) -> Wanted:
    document = _document(text)
    wanted = Wanted([], {})
    for each in _listed(document, "partitions"):
        try:
            partition = TopicPartition(json_fields.text(each["topic"]), json_fields.number(each["partition"]))
            replicas = [json_fields.number(broker) for broker in json_fields.array(each["replicas"])]
            directories = [
                json_fields.text(path)
                for path in json_fields.array(each.get("log_dirs", [ANY_DIRECTORY] * len(replicas)))
            ]
        except (KeyError, TypeError, AttributeError):
            raise ReassignmentError(f"A partition needs topic, partition and replicas: {json.dumps(each)}") from None
        if len(directories) != len(replicas):
            raise ReassignmentError(
                f"Size of replicas list [{', '.join(map(str, replicas))}] is different from size of log dirs list "
                f"[{', '.join(directories)}] for partition {partition}"
            )
        wanted.replicas.append((partition, replicas))
        for broker, path in zip(replicas, directories, strict=True):
            if path != ANY_DIRECTORY:
                wanted.directories[ReplicaPlace(broker, *partition)] = path
    return wanted


def read_topics(text: str) -> list[str]:
    """`{"version": 1, "topics": [{"topic": "foo"}]}` -> ['foo']."""
    try:
        topics = [json_fields.text(each["topic"]) for each in _listed(_document(text), "topics")]
    except (KeyError, TypeError):
        raise ReassignmentError("Each of topics needs a topic") from None
    twice = _duplicates(topics)
    if twice:
        raise ReassignmentError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def read_brokers(text: str) -> list[int]:
    """'1,2,3' -> [1, 2, 3]."""
    try:
        brokers = [int(number) for number in text.split(",")]
    except ValueError:
        raise ReassignmentError(f'For input string: "{text}"') from None
    twice = _duplicates(brokers)
    if twice:
        raise ReassignmentError(f"Broker list contains duplicate entries: [{', '.join(map(str, twice))}]")
    return brokers


def to_json(
    replicas: Mapping[TopicPartition, Sequence[int]], directories: Mapping[ReplicaPlace, str] | None = None
) -> str:
    known = directories or {}
    partitions = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "replicas": list(replicas[each]),
            "log_dirs": [known.get(ReplicaPlace(broker, *each), ANY_DIRECTORY) for broker in replicas[each]],
        }
        for each in sorted(replicas)
    ]
    return json.dumps({"version": _VERSION, "partitions": partitions}, separators=(",", ":"))


# Throttles


def moves_of(
    ongoing: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]],
    wanted: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, Move]:
    """Everything that will be under way. `ongoing`: the replicas there are, and those of them that are being added."""
    moves = {
        partition: Move(frozenset(replicas) - frozenset(adding), frozenset(adding))
        for partition, (replicas, adding) in ongoing.items()
    }
    for partition, replicas in wanted.items():
        sources = moves[partition].sources if partition in moves else frozenset(current[partition])
        moves[partition] = Move(sources, frozenset(replicas) - sources)
    return moves


def topic_throttles(moves: Mapping[TopicPartition, Move]) -> dict[str, dict[str, str]]:
    """By topic: the replicas that are served slowly, and those that fetch slowly, as partition:broker."""
    configs: dict[str, dict[str, str]] = {}
    for topic in sorted({partition.topic for partition in moves}):
        own = {each.partition: move for each, move in moves.items() if each.topic == topic}
        leaders = {f"{partition}:{broker}" for partition, move in own.items() for broker in move.sources}
        followers = {f"{partition}:{broker}" for partition, move in own.items() for broker in move.destinations}
        configs[topic] = {LEADER_REPLICAS: ",".join(sorted(leaders)), FOLLOWER_REPLICAS: ",".join(sorted(followers))}
    return configs


def moving_brokers(moves: Mapping[TopicPartition, Move]) -> list[int]:
    return sorted({broker for move in moves.values() for broker in move.sources | move.destinations})


def _document(text: str) -> dict[str, Any]:
    try:
        document: Any = json.loads(text)
    except ValueError as problem:
        raise ReassignmentError(f"The input string is not a valid JSON: {problem}") from None
    if not isinstance(document, dict):
        raise ReassignmentError("The input string is not a valid JSON: an object was expected")
    if document.get("version", _VERSION) != _VERSION:
        raise ReassignmentError(f"Not supported version field value {document['version']}")
    return document


def _listed(document: dict[str, Any], name: str) -> list[Any]:
    try:
        return json_fields.array(document.get(name, []))
    except TypeError:
        raise ReassignmentError(f"The value of {name} is no array") from None


def _duplicates(items: Iterable[Any]) -> list[Any]:
    seen: set[Any] = set()
    return list(dict.fromkeys(item for item in items if item in seen or seen.add(item)))  # type: ignore[func-returns-value]


def _comma(items: Iterable[object]) -> str:
    return ",".join(map(str, items))
