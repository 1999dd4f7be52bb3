"""The nodes of configs and access rules as they stand, read before the controller writes over them.

Apache Kafka's tools write them too. A change is the whole of a config or of a pattern's rules, made from the image: if
the node says something else by now, to write would lose it. So what a commit is about to change is read first, and
written over the version that was read.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headwater.base.coordination import Coordination, CoordinationError, Node
from headwater.metadata.cluster.changes import news_of
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.notifications import Configured, Entity, entity
from headwater.metadata.cluster.planning import Versions, shared_paths
from headwater.metadata.image import BrokerConfigured, Change, ClusterImage

Read = Callable[[Versions, Sequence[Entity]], None]


class SharedNodes:
    """Used once. `done` gets the versions, and what says something else than the image; `failed` that one could not be
    read.
    """

    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        image: ClusterImage,
        changes: Sequence[Change],
        done: Read,
        failed: Callable[[CoordinationError], None],
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._image = image
        self._done = done
        self._failed = failed
        self._entities: dict[str, Entity] = {}
        paths: dict[str, None] = {}
        for change in changes:
            needed = shared_paths(change, image)
            paths.update(dict.fromkeys(needed))
            if needed and isinstance(change, Configured):
                self._entities[needed[0]] = entity(needed[0], change)
        self.paths = list(paths)
        self._nodes: dict[str, Node | None] = {}
        self._error: CoordinationError | None = None
        self._outstanding = len(self.paths)

    def start(self) -> None:
        for path in self.paths:
            self._coordination.get(path, self._life.bind(partial(self._read, path)))

    def _read(self, path: str, node: Node | None, error: CoordinationError | None) -> None:
        self._outstanding -= 1
        self._error = self._error or error
        self._nodes[path] = node
        if self._outstanding:
            return
        if self._error is not None:
            self._failed(self._error)
            return
        news = [
            each for each in self._entities.values() if says_something_else(each, self._nodes[each.path], self._image)
        ]
        self._done({path: None if node is None else node.version for path, node in self._nodes.items()}, news)


def says_something_else(entity: Entity, node: Node | None, image: ClusterImage) -> bool:
    """What cannot be read says nothing: who changes it writes over it, as long as nobody changes it meanwhile."""
    try:
        change = entity.change(b"" if node is None else node.data, image)
    except Exception:  # noqa: BLE001 - anybody may have written anything
        return False
    if isinstance(change, BrokerConfigured) and not change.config:
        return bool(image.broker_configs.get(change.broker))
    return change is not None and news_of(change, image) is not None
