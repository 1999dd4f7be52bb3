"""What others change in ZooKeeper by themselves, such as Apache Kafka's tools: the controller takes it into the log of
changes.

They write the node of a config or of rules, and then announce it (notifications.py). The active controller watches the
announcements. It reads the node and writes what stands there as an entry of the log, in one step that checks that the
node is as it was read; so all brokers learn of it in one order with everything else. Nothing is committed meanwhile:
the image that the node is compared with is the newest there is, and a node that is missing stays so.

A new controller looks at all announcements that are there, before it controls anything: some may have come while there
was none, or while it was not connected itself. Then its image has them already and the log has not, so these are
written whether they are news to it or not; whoever knows them too drops them. Its own are left out. The oldest go when
there are many.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

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
from headwater.metadata.cluster.changes import encode_change, join_changes, news_of
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
from headwater.metadata.cluster.planning import BYTES_MAX, size_of
from headwater.metadata.cluster.refusals import is_deposition, is_disconnection
from headwater.metadata.cluster.writing import WRITES_MAX, log_entry
from headwater.metadata.image import (
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    ClientConfigured,
    ClusterImage,
    GroupConfigured,
    TopicConfigured,
    UserConfigured,
)

KEPT: Final = 100  # announcements in each directory
_TRIM_FROM: Final = 200
_AT_ONCE: Final = 100  # nodes that are read for one takeover
_TRIES: Final = 3

logger = logging.getLogger("headwater.metadata")


class ForeignChanges:
    """Of one term as controller, whose lifetime is `term`. A takeover that has begun is bound to `life`, the attempt's:
    commits wait behind it, and are answered also when the term is over.
    """

    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        term: Lifetime,
        image: ClusterImage,
        committing: Committing,
        following: ChangeFollower,
        deposed: Callable[[int], None],
    ) -> None:
        self.coordination = coordination
        self.life = life
        self.term = term
        self.image = image
        self.following = following
        self.guard = Check(layout.CONTROLLER_EPOCH, committing.guard_version)
        self._committing = committing
        self._deposed = deposed
        self._seen: dict[str, int] = {}  # by directory, once it has been listed: the last number
        self._own: set[str] = set()
        self._unfinished = len(DIRECTORIES)  # of the first listings
        self._ready: Callable[[], None] = lambda: None

    def start(self, ready: Callable[[], None]) -> None:
        """`ready` once all that the first listings found is taken over, as far as it can be."""
        self._ready = ready
        for directory in DIRECTORIES:
            self._list(directory)

    def written(self, results: Sequence[Written]) -> None:
        """By this controller: its own announcements are known before they are listed."""
        self._own |= {str(path) for path in results if is_announcement(path)}

    def take(self, entities: Sequence[Entity], *, is_first: bool) -> None:
        for begin in range(0, len(entities), _AT_ONCE):
            takeover = _Takeover(self, entities[begin : begin + _AT_ONCE], even_without_news=is_first)
            self._committing.exclusively(takeover.start)
        if is_first:
            self._committing.exclusively(self._finish_one)

    def take_now(self, entities: Sequence[Entity], over: Callable[[], None]) -> None:
        """As a part of a commit, which has found that they are news: whatever was announced."""
        _Takeover(self, entities[:_AT_ONCE], even_without_news=False).start(over)

    def refused(self, error: CoordinationError) -> None:
        if is_disconnection(error):
            self.life.fail(error)
        elif is_deposition(error):
            self._deposed(self.guard.version)
        else:
            logger.warning("event=foreign-changes-not-read problem=%r", str(error))

    def _finish_one(self, over: Callable[[], None]) -> None:
        """Behind the takeovers of a first listing."""
        self._unfinished -= 1
        over()
        if not self._unfinished:
            self._ready()

    def _list(self, directory: str) -> None:
        listed = self.term.bind(partial(self._listed, directory))
        self.coordination.children(directory, listed, watch=self.term.bind(partial(self._list, directory)))

    def _listed(self, directory: str, names: list[str] | None, error: CoordinationError | None) -> None:
        is_first, seen = directory not in self._seen, self._seen.get(directory, -1)
        if error is not None:
            self.refused(error)
        found = sorted((number, name) for name in names or () if (number := sequence_of(directory, name)) >= 0)
        new = [f"{directory}/{name}" for number, name in found if number > seen]
        foreign = [path for path in new if path not in self._own]
        self._own.difference_update(new)
        self._seen[directory] = max(seen, found[-1][0]) if found else seen
        if foreign:
            _Reading(self, directory, foreign, is_first=is_first).start()
        elif is_first:
            self.take([], is_first=True)
        if len(found) >= _TRIM_FROM:
            self._trim([f"{directory}/{name}" for _, name in found[: min(len(found) - KEPT, WRITES_MAX - 1)]])

    def _trim(self, paths: Sequence[str]) -> None:
        """If it is refused, whoever lists them next tries again."""
        writes: list[Write] = [self.guard, *(Delete(path) for path in paths)]
        self.coordination.write(writes, self.term.bind(lambda _written, _error: None))


class _Reading:
    """Used once: reads announcements, and has what they are about taken over."""

    def __init__(self, owner: ForeignChanges, directory: str, paths: Sequence[str], *, is_first: bool) -> None:
        self._owner = owner
        self._directory = directory
        self._paths = paths
        self._is_first = is_first
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
            except Exception as problem:  # noqa: BLE001 - anybody may have written anything
                logger.warning("event=announcement-unreadable path=%s problem=%s", path, type(problem).__name__)
        if not self._left:
            self._owner.take(list(self._entities.values()), is_first=self._is_first)


@dataclass(slots=True)
class _Item:
    """What is written of one node. `size` in bytes, with its part of the entry."""

    path: str
    writes: list[Write]
    encoded: bytes

    @property
    def size(self) -> int:
        return len(self.encoded) + 1 + sum(size_of(write) for write in self.writes)


class _Takeover:
    """Used once: some nodes are read, and what is news in them becomes entries of the log, each below ZooKeeper's
    limit. A node that cannot be taken over is left out, and what was known of it holds.
    """

    def __init__(self, owner: ForeignChanges, entities: Sequence[Entity], *, even_without_news: bool) -> None:
        self._owner = owner
        self._left = {entity.path: entity for entity in entities}
        self._even_without_news = even_without_news
        self._tries = _TRIES
        self._with_children: set[str] = set()  # these cannot be removed
        self._outstanding = 0
        self._nodes: dict[str, Node | None] = {}
        self._items: deque[_Item] = deque()
        self._over: Callable[[], None] = lambda: None

    def start(self, over: Callable[[], None]) -> None:
        self._over = over
        self._read_all()

    def _read_all(self) -> None:
        self._nodes.clear()
        self._outstanding = len(self._left)
        if not self._left:
            self._over()
        for path in self._left:
            self._owner.coordination.get(path, self._owner.life.bind(partial(self._read, path)))

    def _read(self, path: str, node: Node | None, error: CoordinationError | None) -> None:
        self._outstanding -= 1
        if error is None:
            self._nodes[path] = node
        else:
            self._owner.refused(error)
        if not self._outstanding and not self._owner.life.is_over:
            items = (self._item(self._left[read], found) for read, found in self._nodes.items())
            self._items = deque(item for item in items if item is not None)
            self._write()

    def _item(self, entity: Entity, node: Node | None) -> _Item | None:
        try:
            change = entity.change(b"" if node is None else node.data, self._owner.image)
            item = None if change is None else self._planned(entity.path, node, change)
        except Exception as problem:  # noqa: BLE001 - anybody may have written anything, and it may be secret
            logger.error("event=foreign-change-unreadable path=%s problem=%s", entity.path, type(problem).__name__)
            return None
        if item is not None and item.size > BYTES_MAX:
            logger.error("event=foreign-change-too-large path=%s size_bytes=%d", entity.path, item.size)
            return None
        return item

    def _planned(self, path: str, node: Node | None, change: Configured) -> _Item | None:
        image = self._owner.image
        empty_nodes, key = _empty_nodes(change, image)
        if node is None:
            empty_nodes.discard(key)
        stays = key in empty_nodes or path in self._with_children or _has_clients(change, image)
        writes = _guards(path, node, change, stays=stays)
        is_removed = any(isinstance(write, Delete) for write in writes)
        if not (self._even_without_news or is_removed or news_of(change, image) is not None):
            return None
        return _Item(path, writes, encode_change(change))

    def _write(self) -> None:
        """As much as goes into one step, and then the rest."""
        piece: list[_Item] = []
        size = 0
        while self._items and size + self._items[0].size <= BYTES_MAX:
            size += self._items[0].size
            piece.append(self._items.popleft())
        if not piece:
            self._over()
            return
        logger.info("event=foreign-changes nodes=%r", [item.path for item in piece])
        writes = [write for item in piece for write in item.writes]
        whole = [self._owner.guard, *writes, log_entry(join_changes([item.encoded for item in piece]))]
        self._owner.coordination.write(whole, self._owner.life.bind(partial(self._written, piece)))

    def _written(self, piece: Sequence[_Item], written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is not None or written is None:
            self._refused(error or CoordinationError())
            return
        for item in piece:
            del self._left[item.path]
        self._owner.following.wait_for(layout.sequence_of(str(written[-1])), self._write)

    def _refused(self, refusal: CoordinationError) -> None:
        """Somebody has changed one of them since it was read, or has put something below it: then all are read again.
        One that goes on being refused is left out.
        """
        is_hopeless = is_disconnection(refusal) or is_deposition(refusal) or refusal.path not in self._left
        self._tries -= 1
        if is_hopeless:
            self._owner.refused(refusal)
            self._over()
            return
        if isinstance(refusal, NodeHasChildren):
            self._with_children.add(refusal.path)
        if not self._tries:
            self._owner.refused(refusal)
            del self._left[refusal.path]
            self._tries = _TRIES
        self._read_all()


def _has_clients(change: Configured, image: ClusterImage) -> bool:
    return isinstance(change, UserConfigured) and change.user in image.client_directories


def _empty_nodes(change: Configured, image: ClusterImage) -> tuple[set[Any], Any]:
    """Those of its kind that commits are planned with, though they say nothing, and what it is called among them."""
    match change:
        case GroupConfigured(group):
            return image.empty_group_nodes, group
        case UserConfigured(user):
            return image.empty_entity_nodes, (user, None, None)
        case ClientConfigured(user_or_all, client):
            return image.empty_entity_nodes, (user_or_all, client, None)
        case AddressConfigured(address):
            return image.empty_entity_nodes, (None, None, address)
        case AclsSet():
            return image.empty_acl_nodes, change.pattern
    return set(), None


def _guards(path: str, node: Node | None, change: Configured, *, stays: bool) -> list[Write]:
    """The node is as it was read. Configs of topics and brokers have a node always; of others, none is left that says
    nothing, for who configures one next makes it. `stays`: something stands below it, or it is known to be there.
    """
    has_node_always = isinstance(change, TopicConfigured | BrokerConfigured)
    if node is None:
        return [Create(path, layout.encode_config({}))] if has_node_always else []
    is_empty = not (change.rules if isinstance(change, AclsSet) else change.config)
    return [Delete(path, node.version) if is_empty and not has_node_always and not stays else Check(path, node.version)]
