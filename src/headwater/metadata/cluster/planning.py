"""The controller's changes as pieces: each is one step in ZooKeeper, below its limits, with its own entry in the log of
changes.

A change is never divided, but for a topic with very many partitions, which is made with the first of them and then gets
the others, or is marked as doomed before its nodes go. Every piece checks that the epoch of controllers is still the
one of its writer. Configs and rules, which Apache Kafka's tools write too, are written over the version that was read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.base.coordination import Check, Create, Delete, SetData, Write
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, TopicId
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.changes import Announced, PartitionsAddedFrom, encode_change, join_changes
from headwater.metadata.cluster.difference import changed
from headwater.metadata.cluster.layout import TopicNode
from headwater.metadata.cluster.notifications import Configured, announcement
from headwater.metadata.cluster.writing import WRITES_MAX, log_entry, new_partition, removal, state_write, written
from headwater.metadata.image import (
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    Change,
    ClientConfigured,
    ClusterImage,
    GroupConfigured,
    PartitionChanged,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicState,
    UserConfigured,
)

BYTES_MAX: Final = 900_000
_PARTITIONS_AT_ONCE: Final = 200
_OVERHEAD_BYTES: Final = 64  # of a write, beside its path and its data


@dataclass(slots=True)
class Piece:
    """The last of `writes` is the entry. `doomed`: a topic whose nodes have to be removed behind this piece."""

    writes: list[Write]
    doomed: str | None = None


Versions = Mapping[str, int | None]
"""Of nodes that were read, by path. None: there was none."""


def shared_paths(change: Change, image: ClusterImage) -> list[str]:
    """The nodes that others may write too and that the plan of `change` needs the versions of: its own first."""
    match change:
        case TopicConfigured(topic_id):
            topic = image.topics.get(topic_id)
            return [] if topic is None else [layout.topic_config_path(topic.name)]
        case BrokerConfigured(broker):
            return [layout.broker_config_path(broker)]
        case GroupConfigured(group):
            return [layout.group_config_path(group)]
        case UserConfigured(user):
            return [layout.user_config_path(user), layout.client_directory(user)]
        case ClientConfigured(None, client):
            return [layout.client_config_path(None, client)]
        case ClientConfigured(str(user), client):
            own = layout.client_config_path(user, client)
            return [own, layout.user_config_path(user), layout.client_directory(user)]
        case AddressConfigured(address):
            return [layout.address_config_path(address)]
        case AclsSet():
            return [layout.acl_path(change.pattern)]
    return []


def plan(changes: Sequence[Change], image: ClusterImage, guard_version: int, versions: Versions) -> list[Piece]:
    """`versions` has all `shared_paths`. Raises KafkaError for what cannot be: a topic that is not there, or a change
    of a kind that is not for commits.
    """
    planner = _Planner(image, guard_version, versions)
    for change in changes:
        planner.add(change)
    planner.close()
    return planner.pieces


@dataclass(slots=True)
class _Staged:
    """A topic as it will stand when all that was planned so far is written."""

    name: str
    node: TopicNode


class _Planner:
    def __init__(self, image: ClusterImage, guard_version: int, versions: Versions) -> None:
        self.pieces: list[Piece] = []
        self._image = image
        self._guard = Check(layout.CONTROLLER_EPOCH, guard_version)
        self._staged: dict[TopicId, _Staged] = {}
        self._versions = dict(versions)  # as they will be after what was planned so far
        self._begin()

    def add(self, change: Change) -> None:
        match change:
            case TopicCreated():
                self._create_topic(change)
            case TopicDeleted(topic_id):
                self._delete_topic(topic_id)
            case PartitionsAdded(topic_id, assignments):
                self._add_partitions(topic_id, assignments)
            case TopicConfigured(topic_id, config):
                self._put(change, layout.topic_config_path(self._topic(topic_id).name), config)
            case BrokerConfigured(broker, config):
                self._put(change, layout.broker_config_path(broker), config)
            case GroupConfigured(group, config):
                self._put(change, layout.group_config_path(group), config or None)
            case UserConfigured(user, config):
                stays = self._versions[layout.client_directory(user)] is not None
                self._put(change, layout.user_config_path(user), config if config or stays else None)
            case ClientConfigured():
                self._configure_client(change)
            case AddressConfigured(address, config):
                self._put(change, layout.address_config_path(address), config or None)
            case AclsSet(rules=rules):
                data = layout.encode_rules(rules) if rules else None
                self._write_node(change, layout.acl_path(change.pattern), data)
            case PartitionChanged():
                self._change_partition(change)
            case _:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"{type(change).__name__} is not for the controller to say."
                )

    def close(self, doomed: str | None = None) -> None:
        """The piece is complete."""
        if self._entry:
            for topic_id in self._touched:
                staged = self._staged[topic_id]
                self._writes.append(SetData(layout.topic_path(staged.name), layout.encode_topic(staged.node)))
            self.pieces.append(Piece([self._guard, *self._writes, log_entry(join_changes(self._entry))], doomed))
        self._begin()

    def _begin(self) -> None:
        self._writes: list[Write] = []
        self._entry: list[bytes] = []
        self._touched: dict[TopicId, None] = {}
        self._size = 0

    def _topic(self, topic_id: TopicId) -> _Staged:
        if topic_id not in self._staged:
            self._staged[topic_id] = _staged(self._image.topic_by_id(topic_id))
        return self._staged[topic_id]

    def _add(self, writes: Sequence[Write], changes: Sequence[Announced], touches: TopicId | None = None) -> None:
        """As one, in this piece or in the next. Staged topics that it `touches` are changed only after this."""
        encoded = [encode_change(change) for change in changes]
        size = sum(len(data) + 1 for data in encoded) + sum(size_of(write) for write in writes)
        count = len(writes) + len(self._writes) + len(self._touched) + 3  # the guard, the entry, a topic
        whole = self._size + size + self._topic_size(touches, size)
        if self._entry and (count > WRITES_MAX or whole > BYTES_MAX):
            self.close()
        self._size += size + self._topic_size(touches, size)
        self._writes += writes
        self._entry += encoded
        if touches is not None:
            self._touched[touches] = None

    def _topic_size(self, topic_id: TopicId | None, added: int) -> int:
        """How much longer the piece gets by the topic's own node: by all of it once, and by what each change adds to
        it.
        """
        if topic_id is None:
            return 0
        node = b"" if topic_id in self._touched else layout.encode_topic(self._staged[topic_id].node)
        return len(node) + _OVERHEAD_BYTES + added

    def _create_topic(self, change: TopicCreated) -> None:
        name, topic_id = change.name, change.topic_id
        first = change.assignments[:_PARTITIONS_AT_ONCE]
        node = TopicNode(topic_id, [[BrokerId(replica) for replica in replicas] for replicas in first])
        writes: list[Write] = [
            Create(layout.topic_path(name), layout.encode_topic(node)),
            Create(layout.topic_config_path(name), layout.encode_config(change.config)),
            Create(layout.topic_id_path(topic_id)),
            Create(layout.partitions_path(name)),
        ]
        states, changes = self._new_partitions(name, topic_id, 0, first)
        self._staged[topic_id] = _Staged(name, node)
        self._versions[layout.topic_config_path(name)] = 0
        self._add([*writes, *states], [TopicCreated(name, topic_id, first, change.config), *changes])
        if len(change.assignments) > len(first):
            self._add_partitions(topic_id, change.assignments[len(first) :])

    def _add_partitions(self, topic_id: TopicId, assignments: Sequence[tuple[int, ...]]) -> None:
        staged = self._topic(topic_id)
        for begin in range(0, len(assignments), _PARTITIONS_AT_ONCE):
            some = tuple(assignments[begin : begin + _PARTITIONS_AT_ONCE])
            first = len(staged.node.replicas)
            writes, changes = self._new_partitions(staged.name, topic_id, first, some)
            self._add(writes, [PartitionsAddedFrom(topic_id, first, some), *changes], touches=topic_id)
            staged.node.replicas += [[BrokerId(replica) for replica in replicas] for replicas in some]

    def _new_partitions(
        self, name: str, topic_id: TopicId, first: int, assignments: Sequence[tuple[int, ...]]
    ) -> tuple[list[Write], list[PartitionChanged]]:
        writes: list[Write] = []
        changes: list[PartitionChanged] = []
        for number, replicas in enumerate(assignments, first):
            state = new_partition(replicas, self._image)
            data = layout.encode_state(state, self._image.controller_epoch)
            writes += [Create(layout.partition_path(name, number)), Create(layout.state_path(name, number), data)]
            changes.append(changed(topic_id, number, state))
        return writes, changes

    def _delete_topic(self, topic_id: TopicId) -> None:
        staged = self._topic(topic_id)
        path = layout.topic_path(staged.name)
        count = len(staged.node.replicas)
        if topic_id in self._touched:
            self.close()  # what was said of it before is not mixed with its end
        last: list[Write] = [Delete(layout.topic_config_path(staged.name)), Delete(layout.topic_id_path(topic_id))]
        del self._staged[topic_id]
        if 2 * count + 6 <= WRITES_MAX:
            nodes = removal(staged.name, range(count))
            self._add(
                [*nodes, Delete(layout.partitions_path(staged.name)), *last, Delete(path)], [TopicDeleted(topic_id)]
            )
        else:
            staged.node.is_doomed = True
            self._add([SetData(path, layout.encode_topic(staged.node)), *last], [TopicDeleted(topic_id)])
            self.close(doomed=staged.name)

    def _put(self, change: Configured, path: str, config: dict[str, str] | None) -> None:
        """None removes the node."""
        self._write_node(change, path, None if config is None else layout.encode_config(config))

    def _configure_client(self, change: ClientConfigured) -> None:
        """One of a user stands below the user's node, which may not be there yet: then it is made, and says nothing."""
        user, path = change.user, layout.client_config_path(change.user, change.client)
        parents: list[Write] = []
        if user is not None and change.config:
            parents += self._made(layout.user_config_path(user), layout.encode_config({}))
            parents += self._made(layout.client_directory(user), b"")
        self._write_node(change, path, layout.encode_config(change.config) if change.config else None, parents)

    def _made(self, path: str, data: bytes) -> list[Write]:
        """If it is not there."""
        if self._versions[path] is not None:
            return []
        self._versions[path] = 0
        return [Create(path, data)]

    def _write_node(self, change: Configured, path: str, data: bytes | None, before: Sequence[Write] = ()) -> None:
        """Over the version that was read. None removes the node."""
        version = self._versions[path]
        if data is None and version is None:
            return
        write: Write
        if data is None:
            assert version is not None
            write, self._versions[path] = Delete(path, version), None
        elif version is None:
            write, self._versions[path] = Create(path, data), 0
        else:
            write, self._versions[path] = SetData(path, data, version), version + 1
        self._add([*before, write, announcement(path, change)], [change])

    def _change_partition(self, change: PartitionChanged) -> None:
        staged = self._topic(change.topic_id)
        node, number = staged.node, change.partition
        if number >= len(node.replicas):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        wanted = (list(change.replicas), list(change.adding), list(change.removing))
        is_moved = wanted != (node.replicas[number], node.adding.get(number, []), node.removing.get(number, []))
        write = state_write(staged.name, change, self._image.controller_epoch)
        self._add([write], [written(change)], touches=change.topic_id if is_moved else None)
        node.replicas[number], node.adding[number], node.removing[number] = wanted


def _staged(topic: TopicState) -> _Staged:
    partitions = topic.partitions
    node = TopicNode(
        topic.topic_id,
        [list(state.replicas) for state in partitions],
        {number: list(state.adding) for number, state in enumerate(partitions) if state.adding},
        {number: list(state.removing) for number, state in enumerate(partitions) if state.removing},
    )
    return _Staged(topic.name, node)


def size_of(write: Write) -> int:
    return len(write.path) + _OVERHEAD_BYTES + (len(write.data) if isinstance(write, Create | SetData) else 0)
