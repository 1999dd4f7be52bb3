"""Moves of replicas between the log directories of a broker: how far they are, starting them, calling them off."""

import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import Stop
from headwater.cli.reassignments import ReplicaPlace

if TYPE_CHECKING:
    from headwater.client.admin import Admin

_PAUSE_S: Final = 0.1


class Found(NamedTuple):
    """The directory that a replica is in, and the one that it is being copied to; None: none."""

    current: str | None
    future: str | None


def directories(admin: "Admin", replicas: Mapping[TopicPartition, Sequence[int]]) -> dict[ReplicaPlace, str]:
    """Where replicas are now, as far as their brokers answer."""
    places = {ReplicaPlace(broker, *partition) for partition, brokers in replicas.items() for broker in brokers}
    paths: dict[ReplicaPlace, str] = {}
    for broker in sorted({place.broker for place in places} & {each.id for each in admin.describe_cluster().brokers}):
        with suppress(KafkaError):
            for directory in admin.describe_log_dirs([broker]):
                found = {ReplicaPlace(broker, each.topic, each.partition) for each in directory.replicas}
                paths |= dict.fromkeys(found & places, directory.path)
    return paths


def move_lines(admin: "Admin", wanted: Mapping[ReplicaPlace, str]) -> tuple[list[str], bool]:
    """What Kafka's tool says of each, and whether one is still moving."""
    found = _find(admin, wanted)
    return [state_line(each, wanted[each], found[each]) for each in sorted(wanted)], any(
        state.future is not None for state in found.values()
    )


def state_line(replica: ReplicaPlace, wanted: str, found: Found) -> str:
    partition = f"Partition {replica.topic}-{replica.partition}"
    if found.future is not None and found.future == wanted:
        return f"Reassignment of replica {replica} is still in progress."
    if found.future is not None:
        return f"{partition} on broker {replica.broker} is being moved to log dir {found.future} instead of {wanted}."
    if found.current is None:
        return (
            f"{partition} is not found in any live log dir on broker {replica.broker}. There is likely an offline log "
            "directory on the broker."
        )
    if found.current == wanted:
        return f"Reassignment of replica {replica} completed successfully."
    return f"{partition} on broker {replica.broker} is not being moved from log dir {found.current} to {wanted}."


def moves_back(admin: "Admin", wanted: Mapping[ReplicaPlace, str]) -> dict[ReplicaPlace, str]:
    """Those under way, with the directory that each came from."""
    found = _find(admin, wanted)
    return {each: state.current for each, state in found.items() if state.future is not None and state.current}


def start_moves(admin: "Admin", moves: Mapping[ReplicaPlace, str], timeout_ms: int) -> None:
    """Tried again for a while: a replica that is new on its broker is not there yet."""
    from headwater.client.admin.log_dirs import Replica

    deadline = time.monotonic() + timeout_ms / 1000
    pending = dict(moves)
    while True:
        outcome = admin.alter_replica_log_dirs(
            {Replica(each.topic, each.partition, each.broker): path for each, path in pending.items()}
        )
        started = {
            ReplicaPlace(each.broker, each.topic, each.partition) for each, error in outcome.items() if not error
        }
        for each in sorted(started):
            sys.stdout.write(
                f"Successfully started moving log directory to {pending.pop(each)} for replica "
                f"{each.topic}-{each.partition} with broker {each.broker} \n"
            )
        if not pending:
            return
        if time.monotonic() >= deadline:
            names = ",".join(str(each) for each in sorted(pending))
            plural = "" if len(pending) == 1 else "s"
            sys.stdout.write(f"Timed out before log directory move{plural} could be started for: {names}\n")
            raise Stop(1)
        time.sleep(_PAUSE_S)


def _find(admin: "Admin", wanted: Mapping[ReplicaPlace, str]) -> dict[ReplicaPlace, Found]:
    found = dict.fromkeys(wanted, Found(None, None))
    if not wanted:
        return found
    for directory in admin.describe_log_dirs(sorted({each.broker for each in wanted})):
        for replica in directory.replicas:
            place = ReplicaPlace(directory.broker, replica.topic, replica.partition)
            if place in found:
                name = "future" if replica.is_future else "current"
                found[place] = found[place]._replace(**{name: directory.path})
    return found
