"""Reading all nodes of the cluster, in parallel, into a snapshot.

The nodes are not read in one step, so the snapshot is of no single moment: each part is at least as new as the moment
at which the reading began, and the log of changes, read on from there, brings all of them together. A partition's
replicas stand in its topic's node and its version in its state's: so a topic is read until its node has not changed
while its states were read.
"""

import logging
from collections.abc import Callable
from functools import partial

from headwater.base.acls import Pattern
from headwater.base.coordination import Coordination, CoordinationError, Node
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.difference import Snapshot
from headwater.metadata.cluster.layout import TopicNode
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.image import PartitionState, TopicState

logger = logging.getLogger("headwater.metadata")


class Loading:
    """Used once. Ends its lifetime's attempt if something cannot be read."""

    def __init__(self, coordination: Coordination, life: Lifetime, done: Callable[[Snapshot], None]) -> None:
        self._coordination = coordination
        self._life = life
        self._done = done
        self._snapshot = Snapshot()
        self._outstanding = 0

    def start(self) -> None:
        self.get(layout.CLUSTER_ID, self._cluster_id_read)
        self._children(layout.TOPICS, self._topic_listed)
        self._children(layout.BROKER_CONFIGS, self._broker_config_listed)
        self._children(layout.GROUP_CONFIGS, self._group_config_listed)
        self._children(layout.USER_CONFIGS, self._user_config_listed)
        self._children(layout.CLIENT_CONFIGS, partial(self._client_config_listed, None, layout.CLIENT_CONFIGS))
        self._children(layout.ADDRESS_CONFIGS, self._address_config_listed)
        for directory, (resource_type, pattern_type) in layout.ACL_DIRECTORIES.items():
            self._children(directory, partial(self._acls_listed, resource_type, pattern_type))

    def get(self, path: str, read: Callable[[Node | None], None]) -> None:
        def answered(node: Node | None, error: CoordinationError | None) -> None:
            if error is not None:
                self._life.fail(error)
                return
            read(node)
            self._finished_one()

        self._outstanding += 1
        self._coordination.get(path, self._life.bind(answered))

    def topic_read(self, topic: TopicState) -> None:
        self._snapshot.topics[topic.name] = topic

    def topic_unreadable(self, name: str, problem: str) -> None:
        self._snapshot.unreadable.add(name)
        logger.warning("event=topic-unreadable topic=%r problem=%r", name, problem)

    def _children(self, path: str, each: Callable[[str], None]) -> None:
        def answered(names: list[str] | None, error: CoordinationError | None) -> None:
            if error is not None:
                self._life.fail(error)
                return
            for name in names or ():
                each(name)
            self._finished_one()

        self._outstanding += 1
        self._coordination.children(path, self._life.bind(answered))

    def _finished_one(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0:
            self._done(self._snapshot)

    def _cluster_id_read(self, node: Node | None) -> None:
        self._snapshot.cluster_id = "" if node is None else layout.decode_cluster_id(node.data)

    def _topic_listed(self, name: str) -> None:
        _TopicLoading(self, name).start()

    def _broker_config_listed(self, name: str) -> None:
        self.get(layout.broker_config_path(layout.broker_of_config(name)), partial(self._broker_config_read, name))

    def _broker_config_read(self, name: str, node: Node | None) -> None:
        if node is not None:
            broker = layout.broker_of_config(name)
            self._snapshot.broker_configs[broker] = _config_of(layout.broker_config_path(broker), node)

    def _group_config_listed(self, name: str) -> None:
        group = layout.group_of_config(name)
        self.get(layout.group_config_path(group), partial(self._group_config_read, group))

    def _group_config_read(self, group: str, node: Node | None) -> None:
        if node is not None:
            self._snapshot.group_configs[group] = _config_of(layout.group_config_path(group), node)

    def _user_config_listed(self, name: str) -> None:
        user = layout.user_of_config(name)
        self.get(f"{layout.USER_CONFIGS}/{name}", partial(self._user_config_read, user))
        self._children(f"{layout.USER_CONFIGS}/{name}", partial(self._below_user_listed, user, name))

    def _user_config_read(self, user: str, node: Node | None) -> None:
        if node is not None:
            self._snapshot.user_configs[user] = _config_of(layout.user_config_path(user), node)

    def _below_user_listed(self, user: str, name: str, child: str) -> None:
        if child == "clients":
            self._snapshot.client_directories.add(user)
            directory = f"{layout.USER_CONFIGS}/{name}/clients"  # as it is called there, by whoever made it
            self._children(directory, partial(self._client_config_listed, user, directory))

    def _client_config_listed(self, user: str | None, directory: str, name: str) -> None:
        key = (user, layout.client_of_config(name))
        self.get(f"{directory}/{name}", partial(self._client_config_read, key))

    def _client_config_read(self, key: tuple[str | None, str], node: Node | None) -> None:
        if node is not None:
            self._snapshot.client_configs[key] = _config_of(layout.client_config_path(*key), node)

    def _address_config_listed(self, name: str) -> None:
        address = layout.address_of_config(name)
        self.get(layout.address_config_path(address), partial(self._address_config_read, address))

    def _address_config_read(self, address: str, node: Node | None) -> None:
        if node is not None:
            self._snapshot.address_configs[address] = _config_of(layout.address_config_path(address), node)

    def _acls_listed(self, resource_type: int, pattern_type: int, node_name: str) -> None:
        pattern = Pattern(resource_type, pattern_type, layout.acl_name_of(node_name))
        self.get(layout.acl_path(pattern), partial(self._acls_read, pattern))

    def _acls_read(self, pattern: Pattern, node: Node | None) -> None:
        """Rules that cannot be read end the attempt: to go on without them could let in whom they deny."""
        if node is None:
            return
        try:
            self._snapshot.acls[pattern] = layout.decode_rules(node.data) if node.data else ()
        except layout.UNREADABLE as problem:
            # Not what it says: somebody may have put anything there.
            size, kind = len(node.data), type(problem).__name__
            logger.error("event=acls-unreadable pattern=%r size_bytes=%d problem=%s", pattern, size, kind)
            self._life.fail(CoordinationError(layout.acl_path(pattern)))


class _TopicLoading:
    """One topic: its node, then its states and its config, then its node again."""

    def __init__(self, loading: Loading, name: str) -> None:
        self._loading = loading
        self._name = name
        self._node: Node | None = None
        self._topic: TopicNode | None = None
        self._states: list[PartitionState | None] = []
        self._config: dict[str, str] = {}
        self._problem = ""

    def start(self) -> None:
        self._loading.get(layout.topic_path(self._name), self._read)

    def _read(self, node: Node | None) -> None:
        self._node = node
        if node is None:
            return
        try:
            self._topic = layout.decode_topic(node.data)
        except layout.UNREADABLE as problem:
            self._loading.topic_unreadable(self._name, type(problem).__name__)
            return
        if self._topic.is_doomed:
            return
        self._problem = ""
        self._states = [None] * len(self._topic.replicas)
        for partition in range(len(self._states)):
            path = layout.state_path(self._name, partition)
            self._loading.get(path, partial(self._state_read, self._topic, partition))
        self._loading.get(layout.topic_config_path(self._name), self._config_read)
        self._loading.get(layout.topic_path(self._name), self._read_again)  # answered behind the others

    def _state_read(self, topic: TopicNode, partition: int, node: Node | None) -> None:
        if node is None:
            self._problem = f"partition {partition} has no state"
            return
        try:
            self._states[partition] = layout.decode_state(node.data, node.version, topic, partition)
        except layout.UNREADABLE as problem:
            self._problem = f"partition {partition}: {type(problem).__name__}"

    def _config_read(self, node: Node | None) -> None:
        self._config = {} if node is None else _config_of(layout.topic_config_path(self._name), node)

    def _read_again(self, node: Node | None) -> None:
        assert self._topic is not None
        if node != self._node:
            self._read(node)
            return
        states = [state for state in self._states if state is not None]
        if self._problem or len(states) < len(self._states):
            self._loading.topic_unreadable(self._name, self._problem)
            return
        self._loading.topic_read(TopicState(self._name, self._topic.topic_id, states, self._config))


def _config_of(path: str, node: Node) -> dict[str, str]:
    """What cannot be read does not get into the log: it may hold passwords."""
    try:
        return layout.decode_config(node.data) if node.data else {}
    except layout.UNREADABLE as problem:
        size, kind = len(node.data), type(problem).__name__
        logger.warning("event=config-unreadable path=%r size_bytes=%d problem=%s", path, size, kind)
        return {}
