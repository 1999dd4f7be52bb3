"""The controller's changes as pieces: each is one step in ZooKeeper, below its limits, with its own entry in the log of
changes.

A change is never divided, but for a topic with very many partitions, which is made with the first of them and then gets
the others, or is marked as doomed before its nodes go. Every piece checks that the epoch of controllers is still the
one of its writer.
"""

from collections.abc import Sequence
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


def plan(changes: Sequence[Change], image: ClusterImage, guard_version: int) -> list[Piece]:
    """Raises KafkaError for what cannot be: a topic that is not there, or a change of a kind that is not for commits."""
    planner = _Planner(image, guard_version)
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
    def __init__(self, image: ClusterImage, guard_version: int) -> None:
        self.pieces: list[Piece] = []
        self._image = image
        self._guard = Check(layout.CONTROLLER_EPOCH, guard_version)
        self._staged: dict[TopicId, _Staged] = {}
        self._has_node: dict[str, bool] = {}  # by path: whether its node will be there after what was planned so far
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
                path = layout.topic_config_path(self._topic(topic_id).name)
                self._add([SetData(path, layout.encode_config(config)), announcement(path, change)], [change])
            case BrokerConfigured(broker, config):
                path = layout.broker_config_path(broker)
                self._configure(change, path, config, is_known=broker in self._image.broker_configs)
            case GroupConfigured(group, config):
                path = layout.group_config_path(group)
                is_known = group in self._image.group_configs or group in self._image.empty_group_nodes
                self._configure(change, path, config or None, is_known=is_known)
            case UserConfigured(user, config):
                path = layout.user_config_path(user)
                stays = self._has_node.get(layout.client_directory(user), user in self._image.client_directories)
                self._configure(change, path, config if config or stays else None, is_known=self._has_user_node(user))
            case ClientConfigured():
                self._configure_client(change)
            case AddressConfigured(address, config):
                path = layout.address_config_path(address)
                is_empty = (None, None, address) in self._image.empty_entity_nodes
                is_known = is_empty or address in self._image.address_configs
                self._configure(change, path, config or None, is_known=is_known)
            case AclsSet(rules=rules):
                is_known = change.pattern in self._image.acls or change.pattern in self._image.empty_acl_nodes
                data = layout.encode_rules(rules) if rules else None
                self._put(change, layout.acl_path(change.pattern), data, is_known=is_known)
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

    def _configure(
        self,
        change: Configured,
        path: str,
        config: dict[str, str] | None,
        *,
        is_known: bool,
    ) -> None:
        self._put(change, path, None if config is None else layout.encode_config(config), is_known=is_known)

    def _configure_client(self, change: ClientConfigured) -> None:
        """One of a user stands below the user's node, which may not be there yet: then it is made, and says nothing."""
        user, path = change.user, layout.client_config_path(change.user, change.client)
        key = (user, change.client)
        is_known = key in self._image.client_configs or (*key, None) in self._image.empty_entity_nodes
        if not change.config:
            self._put(change, path, None, is_known=is_known)
            return
        writes: list[Write] = []
        if user is not None:
            parent, directory = layout.user_config_path(user), layout.client_directory(user)
            if not self._has_node.get(parent, self._has_user_node(user)):
                writes.append(Create(parent, layout.encode_config({})))
            if not self._has_node.get(directory, user in self._image.client_directories):
                writes.append(Create(directory))
            self._has_node[parent] = self._has_node[directory] = True
        data = layout.encode_config(change.config)
        exists = self._has_node.get(path, is_known)
        self._has_node[path] = True
        put = SetData(path, data) if exists else Create(path, data)
        self._add([*writes, put, announcement(path, change)], [change])

    def _has_user_node(self, user: str) -> bool:
        image = self._image
        is_empty = (user, None, None) in image.empty_entity_nodes
        return is_empty or user in image.user_configs or user in image.client_directories

    def _put(self, change: Configured, path: str, data: bytes | None, *, is_known: bool) -> None:
        """None removes the node."""
        exists = self._has_node.get(path, is_known)
        self._has_node[path] = data is not None
        if data is not None:
            put = SetData(path, data) if exists else Create(path, data)
            self._add([put, announcement(path, change)], [change])
        elif exists:
            self._add([Delete(path), announcement(path, change)], [change])

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
