"""What a new controller puts in order before it begins: what another left half done, and topics that Apache Kafka made.

Doomed topics lose their nodes. Topics without a node under /headwater/topics, which proposals check, get one.
"""

import logging
from collections.abc import Callable
from functools import partial

from headwater.base.coordination import Check, Coordination, CoordinationError, Create, Node, Write, Written
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.refusals import is_deposition, is_disconnection
from headwater.metadata.cluster.removing import Removal
from headwater.metadata.image import ClusterImage, TopicState

logger = logging.getLogger("headwater.metadata")


class Tidying:
    """Used once, when the image is as new as the election. `done` when all is in order, as far as it can be; `refused`
    if there is another controller.
    """

    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        image: ClusterImage,
        guard_version: int,
        done: Callable[[], None],
        refused: Callable[[CoordinationError], None],
    ) -> None:
        self._coordination = coordination
        self._life = life
        self._image = image
        self._guard_version = guard_version
        self._done = done
        self._give_up = refused
        self._outstanding = 2

    def start(self) -> None:
        self._coordination.children(layout.TOPICS, self._life.bind(self._topics_listed))
        self._coordination.children(layout.TOPIC_IDS, self._life.bind(self._ids_listed))

    def _finished_one(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0:
            self._done()

    def _refused(self, error: CoordinationError) -> None:
        if is_disconnection(error) or is_deposition(error):
            self._give_up(error)
        else:  # something of somebody else is in the way; it concerns nothing but this topic
            logger.warning("event=tidying-refused problem=%r", str(error))
            self._finished_one()

    def _topics_listed(self, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
            return
        for name in names or ():
            if name not in self._image.ids_by_name:
                self._outstanding += 1
                self._coordination.get(layout.topic_path(name), self._life.bind(partial(self._leftover_read, name)))
        self._finished_one()

    def _leftover_read(self, name: str, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
        elif node is not None and _is_doomed(node):
            Removal(
                self._coordination, self._life, name, self._guard_version, self._finished_one, self._refused
            ).start()
        else:
            self._finished_one()

    def _ids_listed(self, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
            return
        known = {f"{layout.TOPIC_IDS}/{name}" for name in names or ()}
        for topic in self._image.topics.values():
            if layout.topic_id_path(topic.topic_id) not in known:
                self._outstanding += 1
                read = self._life.bind(partial(self._config_read, topic))
                self._coordination.get(layout.topic_config_path(topic.name), read)
        self._finished_one()

    def _config_read(self, topic: TopicState, node: Node | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
            return
        writes: list[Write] = [Check(layout.CONTROLLER_EPOCH, self._guard_version)]
        writes.append(Create(layout.topic_id_path(topic.topic_id)))
        if node is None:
            writes.append(Create(layout.topic_config_path(topic.name), layout.encode_config({})))
        self._coordination.write(writes, self._life.bind(self._adopted))

    def _adopted(self, _written: list[Written] | None, error: CoordinationError | None) -> None:
        if error is not None:
            self._refused(error)
        else:
            self._finished_one()


def _is_doomed(node: Node) -> bool:
    try:
        return layout.decode_topic(node.data).is_doomed
    except layout.UNREADABLE:
        return False
