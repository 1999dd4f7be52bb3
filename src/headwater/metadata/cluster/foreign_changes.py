"""What others change in ZooKeeper by themselves, such as Apache Kafka's tools: the controller takes it into the log of changes.

They write the node of a config or of rules, and then announce it (notifications.py). The active controller watches the
announcements. It reads the node and writes what stands there as an entry of the log, in one step that checks that the
node is as it was read; so all brokers learn of it in one order with everything else. Nothing is committed meanwhile:
the image that the node is compared with is the newest there is, and a node that is missing stays so.

A new controller looks at all announcements that are there: some may have come while there was none. Its own are left
out. The oldest go when there are many.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headwater.base.coordination import (
    Check,
    Coordination,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeHasChildren,
    Write,
    Written,
)
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.change_follower import ChangeFollower
from headwater.metadata.cluster.changes import news_of
from headwater.metadata.cluster.committing import Committing
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.notifications import (
    DIRECTORIES,
    Configured,
    Entity,
    entity_of,
    is_announcement,
    sequence_of,
)
from headwater.metadata.cluster.refusals import is_deposition, is_disconnection
from headwater.metadata.cluster.writing import WRITES_MAX, entry
from headwater.metadata.image import AclsSet, BrokerConfigured, ClusterImage, TopicConfigured, UserConfigured

KEPT: Final = 100  # announcements in each directory
_TRIM_FROM: Final = 200
_AT_ONCE: Final = 100  # nodes that are taken over in one step
_TRIES: Final = 3

logger = logging.getLogger("headwater.metadata")


class ForeignChanges:
    """Of one term as controller, whose lifetime is `term`."""

    def __init__(
        self,
        coordination: Coordination,
        term: Lifetime,
        image: ClusterImage,
        committing: Committing,
        following: ChangeFollower,
        deposed: Callable[[int], None],
    ) -> None:
        self.coordination = coordination
        self.term = term
        self.image = image
        self.following = following
        self.guard = Check(layout.CONTROLLER_EPOCH, committing.guard_version)
        self._committing = committing
        self._deposed = deposed
        self._seen = dict.fromkeys(DIRECTORIES, -1)
        self._own: set[str] = set()

    def start(self) -> None:
        for directory in DIRECTORIES:
            self._list(directory)

    def written(self, results: Sequence[Written]) -> None:
        """By this controller: its own announcements are known before they are listed."""
        self._own |= {str(path) for path in results if is_announcement(path)}

    def take(
        self, entities: Sequence[Entity], tries: int = _TRIES, with_children: frozenset[str] = frozenset()
    ) -> None:
        for begin in range(0, len(entities), _AT_ONCE):
            takeover = _Takeover(self, entities[begin : begin + _AT_ONCE], tries, with_children)
            self._committing.exclusively(takeover.start)

    def refused(self, error: CoordinationError) -> None:
        if is_disconnection(error):
            self.term.fail(error)
        elif is_deposition(error):
            self._deposed(self.guard.version)
        else:
            logger.warning("event=foreign-changes-not-read problem=%r", str(error))

    def _list(self, directory: str) -> None:
        listed = self.term.bind(partial(self._listed, directory))
        self.coordination.children(directory, listed, watch=self.term.bind(partial(self._list, directory)))

    def _listed(self, directory: str, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self.refused(error)
            return
        found = sorted((number, name) for name in names or () if (number := sequence_of(directory, name)) >= 0)
        new = [f"{directory}/{name}" for number, name in found if number > self._seen[directory]]
        foreign = [path for path in new if path not in self._own]
        self._own.difference_update(new)
        if foreign:
            _Reading(self, directory, foreign).start()
        if found:
            self._seen[directory] = max(self._seen[directory], found[-1][0])
        if len(found) >= _TRIM_FROM:
            self._trim([f"{directory}/{name}" for _, name in found[: min(len(found) - KEPT, WRITES_MAX - 1)]])

    def _trim(self, paths: Sequence[str]) -> None:
        """If it is refused, whoever lists them next tries again."""
        writes: list[Write] = [self.guard, *(Delete(path) for path in paths)]
        self.coordination.write(writes, self.term.bind(lambda _written, _error: None))


class _Reading:
    """Used once: reads announcements, and has what they are about taken over."""

    def __init__(self, owner: ForeignChanges, directory: str, paths: Sequence[str]) -> None:
        self._owner = owner
        self._directory = directory
        self._paths = paths
        self._left = len(paths)
        self._entities: dict[str, Entity] = {}

    def start(self) -> None:
        for path in self._paths:
            self._owner.coordination.get(path, self._owner.term.bind(partial(self._read, path)))

    def _read(self, path: str, node: Node | None, error: CoordinationError | None) -> None:
        self._left -= 1
        if error is not None:
            self._owner.refused(error)
        elif node is not None:
            try:
                entity = entity_of(self._directory, node.data)
                self._entities[entity.path] = entity
            except layout.UNREADABLE as problem:
                logger.warning("event=announcement-unreadable path=%s problem=%r", path, problem)
        if not self._left and self._entities:
            self._owner.take(list(self._entities.values()))


class _Takeover:
    """Used once: some nodes are read, and what is news in them becomes an entry of the log. Nodes `with_children` cannot
    be removed.
    """

    def __init__(
        self, owner: ForeignChanges, entities: Sequence[Entity], tries: int, with_children: frozenset[str]
    ) -> None:
        self._owner = owner
        self._entities = entities
        self._tries = tries
        self._with_children = with_children
        self._nodes: dict[str, Node | None] = {}
        self._has_failed = False
        self._over: Callable[[], None] = lambda: None

    def start(self, over: Callable[[], None]) -> None:
        self._over = over
        for entity in self._entities:
            self._owner.coordination.get(entity.path, self._owner.term.bind(partial(self._read, entity.path)))

    def _read(self, path: str, node: Node | None, error: CoordinationError | None) -> None:
        self._nodes[path] = node
        if error is not None:
            self._has_failed = True
            self._owner.refused(error)
        if len(self._nodes) == len(self._entities):
            if self._has_failed:
                self._over()
            else:
                self._write()

    def _write(self) -> None:
        writes: list[Write] = []
        changes: list[Configured] = []
        for entity in self._entities:
            change = self._news(entity)
            if change is not None:
                changes.append(change)
                stays = entity.path in self._with_children or _has_clients(change, self._owner.image)
                writes += _guards(entity.path, self._nodes[entity.path], change, stays=stays)
        if not changes:
            self._over()
            return
        logger.info("event=foreign-changes nodes=%r", [entity.path for entity in self._entities])
        whole = [self._owner.guard, *writes, entry(changes)]
        self._owner.coordination.write(whole, self._owner.term.bind(self._written))

    def _news(self, entity: Entity) -> Configured | None:
        node = self._nodes[entity.path]
        try:
            change = entity.change(b"" if node is None else node.data, self._owner.image)
        except layout.UNREADABLE as problem:  # what was known of it holds
            logger.error("event=foreign-change-unreadable path=%s problem=%r", entity.path, problem)
            return None
        return None if change is None or news_of(change, self._owner.image) is None else change

    def _written(self, written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is None and written is not None:
            self._owner.following.wait_for(layout.sequence_of(str(written[-1])), self._over)
            return
        refusal = error or CoordinationError()
        if is_disconnection(refusal) or is_deposition(refusal) or self._tries <= 1:
            self._owner.refused(refusal)
        else:  # somebody has changed one of them since it was read, or has put something below it
            more = {refusal.path} if isinstance(refusal, NodeHasChildren) else set()
            self._owner.take(self._entities, self._tries - 1, self._with_children | more)
        self._over()


def _has_clients(change: Configured, image: ClusterImage) -> bool:
    return isinstance(change, UserConfigured) and change.user in image.client_directories


def _guards(path: str, node: Node | None, change: Configured, *, stays: bool) -> list[Write]:
    """The node is as it was read. Configs of topics and brokers have a node always; of others, none is left that says
    nothing, for who configures one next makes it. `stays`: something stands below it.
    """
    has_node_always = isinstance(change, TopicConfigured | BrokerConfigured)
    if node is None:
        return [Create(path, layout.encode_config({}))] if has_node_always else []
    is_empty = not (change.rules if isinstance(change, AclsSet) else change.config)
    return [Delete(path, node.version) if is_empty and not has_node_always and not stays else Check(path, node.version)]
