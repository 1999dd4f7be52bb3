"""The three actions of `kafka-reassign-partitions` that follow a file of moves: --execute, --verify and --cancel."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import Stop
from headwater.cli.reassignments import ReassignmentError, Wanted, moves_of, read_wanted, to_json

if TYPE_CHECKING:
    from headwater.client.admin import Admin

_EXISTING: Final = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment.\n"
)
_KEEP_VERIFYING: Final = "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.\n"
_TIMEOUT_MS: Final = 10_000


def execute(
    admin: "Admin",
    text: str,
    *,
    additional: bool,
    rate_bytes: int | None,
    directory_rate_bytes: int | None,
    timeout_ms: int | None,
) -> None:
    from headwater.cli.kafka.replica_moves import directories, start_moves

    wanted = read_wanted(text)
    replicas = wanted.checked()
    ongoing = admin.list_partition_reassignments()
    if ongoing and not additional:
        sys.stdout.write(_EXISTING)
        raise Stop(1)
    known = {each.id for each in admin.describe_cluster().brokers}
    for broker in sorted({broker for each in replicas.values() for broker in each}):
        if broker not in known:
            raise ReassignmentError(f"Unknown broker id {broker}")
    current = _current(admin, replicas)
    there = to_json(current, directories(admin, current))
    sys.stdout.write(f"Current partition replica assignment\n\n{there}\n\n")
    sys.stdout.write("Save this to use as the --reassignment-json-file option during rollback\n")
    under_way = {partition: (move.replicas, move.adding) for partition, move in ongoing.items()}
    _throttle(admin, wanted, under_way, replicas, current, rate_bytes, directory_rate_bytes)
    errors = {each: error for each, error in admin.alter_partition_reassignments(replicas).items() if error}
    if errors:
        _fail("Error reassigning partition(s):", errors)
    names = ",".join(str(partition) for partition in sorted(replicas))
    sys.stdout.write(f"Successfully started partition reassignment{_s(replicas)} for {names}\n")
    if wanted.directories:
        start_moves(admin, wanted.directories, _TIMEOUT_MS if timeout_ms is None else timeout_ms)


def _throttle(
    admin: "Admin",
    wanted: Wanted,
    under_way: Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]],
    replicas: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
    rate_bytes: int | None,
    directory_rate_bytes: int | None,
) -> None:
    """A negative rate is none, as there."""
    from headwater.cli.throttles import set_directory_throttle, set_throttles

    rate_bytes = -1 if rate_bytes is None else rate_bytes
    directory_rate_bytes = -1 if directory_rate_bytes is None else directory_rate_bytes
    if rate_bytes >= 0 or directory_rate_bytes >= 0:
        sys.stdout.write(_KEEP_VERIFYING)
    if rate_bytes >= 0:
        set_throttles(admin, moves_of(under_way, replicas, current), rate_bytes)
        sys.stdout.write(f"The inter-broker throttle limit was set to {rate_bytes} B/s\n")
    if directory_rate_bytes >= 0:
        set_directory_throttle(admin, [place.broker for place in wanted.directories], directory_rate_bytes)
        sys.stdout.write(f"The replica-alter-dir throttle limit was set to {directory_rate_bytes} B/s\n")


def verify(admin: "Admin", text: str, *, keep_throttles: bool) -> None:
    from headwater.cli.kafka.replica_moves import move_lines

    wanted = read_wanted(text)
    ongoing = admin.list_partition_reassignments()
    sys.stdout.write("Status of partition reassignment:\n")
    settled = _settled(admin, [partition for partition, _ in wanted.replicas if partition not in ongoing])
    for partition, replicas in sorted(dict(wanted.replicas).items()):
        sys.stdout.write(_state_line(partition, replicas, None if partition in ongoing else settled[partition]))
    lines, moving = move_lines(admin, wanted.directories)
    sys.stdout.write("\n".join(lines) + "\n")
    if not ongoing and not moving and not keep_throttles:
        clear_throttles(admin, wanted)


def _state_line(partition: TopicPartition, wanted: Sequence[int], found: Sequence[int] | None) -> str:
    """`found`: on which brokers it is; None while it is moving."""
    if found is None:
        return f"Reassignment of partition {partition} is still in progress.\n"
    if list(found) == list(wanted):
        return f"Reassignment of partition {partition} is completed.\n"
    return (
        f"There is no active reassignment of partition {partition}, but replica set is {_comma(found)} rather than "
        f"{_comma(wanted)}.\n"
    )


def cancel(admin: "Admin", text: str, *, keep_throttles: bool, timeout_ms: int | None) -> None:
    from headwater.cli.kafka.replica_moves import moves_back, start_moves

    wanted = read_wanted(text)
    active = sorted(admin.list_partition_reassignments([partition for partition, _ in wanted.replicas]))
    if active:
        outcome = admin.alter_partition_reassignments(dict.fromkeys(active))
        errors = {each: error for each, error in outcome.items() if error}
        if errors:
            _fail(f"Error cancelling partition reassignment{_s(errors)} for:", errors)
        names = ",".join(map(str, active))
        sys.stdout.write(f"Successfully cancelled partition reassignment{_s(active)} for: {names}\n")
    else:
        sys.stdout.write("None of the specified partition reassignments are active.\n")
    back = moves_back(admin, wanted.directories)
    if back:
        start_moves(admin, back, _TIMEOUT_MS if timeout_ms is None else timeout_ms)
    else:
        sys.stdout.write("None of the specified partition moves are active.")
    if not keep_throttles:
        clear_throttles(admin, wanted)


def clear_throttles(admin: "Admin", wanted: Wanted) -> None:
    from headwater.cli.throttles import clear_broker_throttles, clear_topic_throttles

    brokers = sorted(
        {each.id for each in admin.describe_cluster().brokers}
        | {broker for _, replicas in wanted.replicas for broker in replicas}
    )
    sys.stdout.write(f"Clearing broker-level throttles on broker{_s(brokers)} {_comma(brokers)}\n")
    clear_broker_throttles(admin, brokers)
    topics = sorted({partition.topic for partition, _ in wanted.replicas})
    sys.stdout.write(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}\n")
    clear_topic_throttles(admin, topics)


def _current(admin: "Admin", partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    wanted = list(partitions)
    found = assigned(admin, [partition.topic for partition in wanted])
    missing = [str(partition) for partition in wanted if partition not in found]
    if missing:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition: {', '.join(missing)}")
    return {partition: found[partition] for partition in wanted}


def _settled(admin: "Admin", partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """Where partitions lie that do not move; nowhere, if there is no such partition."""
    settled: dict[TopicPartition, list[int]] = {partition: [] for partition in partitions}
    for name, found in admin.describe_topics(sorted({each.topic for each in partitions})).items():
        if isinstance(found, KafkaError):
            if found.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise found
            continue
        for each in found.partitions:
            if (partition := TopicPartition(name, each.partition)) in settled:
                settled[partition] = list(each.replicas)
    return settled


def _fail(title: str, errors: Mapping[TopicPartition, KafkaError]) -> None:
    from headwater.cli.kafka.exits import message_of

    lines = [
        f"{partition}: {errors[partition].message or message_of(errors[partition])}" for partition in sorted(errors)
    ]
    sys.stdout.write("\n".join([title, *lines]) + "\n")
    raise Stop(1)


def _s(items: Sequence[object] | Mapping[TopicPartition, object]) -> str:
    return "" if len(items) == 1 else "s"


def _comma(items: Sequence[int]) -> str:
    return ",".join(map(str, items))


def assigned(admin: "Admin", topics: Sequence[str]) -> dict[TopicPartition, list[int]]:
    """On which brokers all partitions of these topics lie."""
    replicas = {}
    for name, found in admin.describe_topics(sorted(set(topics))).items():
        if isinstance(found, KafkaError):
            if found.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise KafkaError(found.code, f"Topic {name} not found.")
            raise found
        replicas.update({TopicPartition(name, each.partition): list(each.replicas) for each in found.partitions})
    return replicas
