"""The metadata store of a broker in a cluster: ZooKeeper holds the nodes and the log of changes, this broker follows
them.

It holds one attempt at a time (attempt.py), from a connection to its loss, and begins the next by itself. While there
is none that follows, the image stands still, and whatever is asked fails with REQUEST_TIMED_OUT.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from headwater.base.coordination import (
    Check,
    Coordination,
    CoordinationError,
    NotAuthorized,
    SessionState,
    SetData,
    Written,
)
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId
from headwater.base.ports import Scheduler
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.attempt import Attempt
from headwater.metadata.cluster.lifetime import Done, Lifetime, call, connection_lost
from headwater.metadata.cluster.opening import Opening
from headwater.metadata.cluster.producer_ids import BlockReservation
from headwater.metadata.cluster.refusals import is_disconnection, meaning, sentence
from headwater.metadata.cluster.writing import entry
from headwater.metadata.image import BrokerRegistered, BrokerState, Change, ClusterImage, PartitionChanged

_AGAIN_MS: Final = 500  # after a failure that the connection survived

logger = logging.getLogger("headwater.metadata")


class ClusterStore:
    """Owned by the broker's loop. `image.cluster_id` is the id that a new cluster gets; the one it has replaces it."""

    def __init__(
        self,
        coordination: Coordination,
        image: ClusterImage,
        scheduler: Scheduler,
        broker_id: int,
        session_timeout_ms: int = 18_000,
    ) -> None:
        self.on_applied: Callable[[Sequence[Change]], None] = lambda _changes: None
        """The changes of one entry, or of one loading, after all of them are in the image."""
        self.on_controller: Callable[[bool], None] = lambda _is_controller: None
        """True: this broker is the active controller, and its image is as new as that.
        False: at once when that is in doubt.
        """
        self.refusal = ""
        """Why ZooKeeper keeps this broker out, in a sentence; empty while it does not."""
        self._coordination = coordination
        self._image = image
        self._scheduler = scheduler
        self._broker_id = broker_id
        self._patience_ms = 2 * session_timeout_ms
        self._has_session = False
        self._is_closed = False
        self._life: Lifetime | None = None
        self._attempt: Attempt | None = None
        self._connected: Callable[[str], None] | None = None
        self._joined: Done | None = None
        self._me: BrokerState | None = None
        self._registered: BrokerState | None = None  # in this process, the last time

    @property
    def broker_epoch(self) -> int:
        """Of the last registration; -1 before the first."""
        return -1 if self._registered is None else self._registered.epoch

    @property
    def is_connected(self) -> bool:
        """Registered, and following: the image is as new as can be."""
        return self._attempt is not None and self._attempt.following is not None

    @property
    def is_controller(self) -> bool:
        return self._attempt is not None and self._attempt.committing is not None

    def connect(self, done: Callable[[str], None]) -> None:
        """Starts the session; `done` gets the cluster's id, sooner or later."""
        self._connected = done
        self._coordination.on_state = self._state_changed
        self._coordination.start()

    def join(self, me: BrokerState, done: Done) -> None:
        """After `connect`. `me.epoch` is not read; `me.previous_epoch` is the one of a last life that ended cleanly.

        DUPLICATE_BROKER_REGISTRATION: another process has had this id for twice the session's time-out. Then it may be
        tried again.
        """
        self._me = me
        self._joined = done
        self._begin()

    def stop_leading(self, done: Done) -> None:
        """Tells everybody that this broker is about to stop; `done` once that has come back. It also holds for later
        sessions.
        """
        assert self._me is not None
        self._me = replace(self._me, is_stopping=True)
        attempt = self._attempt
        if attempt is None or attempt.following is None or self._registered is None:
            self._refuse(done, connection_lost())
            return
        following, life, answer = attempt.following, attempt.life, attempt.life.owe(done)

        def written(results: list[Written] | None, error: CoordinationError | None) -> None:
            if error is None and results is not None:
                following.wait_for(layout.sequence_of(str(results[-1])), lambda: answer(None))
            elif error is None or is_disconnection(error):
                life.fail(error or CoordinationError())
            else:
                answer(meaning(error))

        me = self._registered = replace(self._registered, is_stopping=True)
        data, announced = layout.encode_broker(me, self._coordination.session_id), entry([BrokerRegistered(me)])
        self._coordination.write([SetData(layout.broker_path(self._broker_id), data), announced], life.bind(written))

    def commit(self, changes: Sequence[Change], done: Done) -> None:
        if not self.is_connected:
            self._refuse(done, connection_lost())
        elif self._attempt is None or self._attempt.committing is None:
            self._refuse(done, KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller."))
        else:
            self._attempt.committing.commit(changes, done)

    def read_members(self, done: Callable[[], None]) -> None:
        """As the active controller: `done` once the image has who is registered now. Never, if it is that no more."""
        if self._attempt is not None and self._attempt.committing is not None:
            self._attempt.read_members(done)

    def propose(self, change: PartitionChanged, done: Done) -> None:
        if self._attempt is None or self._attempt.proposing is None:
            self._refuse(done, connection_lost())
        else:
            self._attempt.proposing.propose(change, done)

    def confirm(self, topic_id: TopicId, partition: int, done: Done) -> None:
        """By a write that changes nothing: reads may be old."""
        topic = self._image.topics.get(topic_id)
        if self._attempt is None or self._attempt.following is None:
            self._refuse(done, connection_lost())
        elif topic is None or partition >= len(topic.partitions):
            self._refuse(done, KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "The topic has been deleted."))
        else:
            life, answer = self._attempt.life, self._attempt.life.owe(done)
            check = Check(layout.state_path(topic.name, partition), topic.partitions[partition].version)

            def checked(_written: list[Written] | None, error: CoordinationError | None) -> None:
                if error is not None and is_disconnection(error):
                    life.fail(error)
                else:
                    answer(None if error is None else meaning(error))

            self._coordination.write([check], life.bind(checked))

    def reserve_producer_ids(self, count: int, done: Callable[[int, KafkaError | None], None]) -> None:
        if self._attempt is None or self._attempt.following is None:
            self._refuse(lambda error: done(-1, error), connection_lost())
        else:
            BlockReservation(self._coordination, self._attempt.life, self._broker_id, count, done).start()

    def close(self) -> None:
        """Ends the session: the registration goes, and nobody is told anything any more."""
        self._is_closed = True
        if self._life is not None:
            self._life.forget()
        self._attempt = None
        self._coordination.close()

    # --- what the attempt tells

    def registered(self, me: BrokerState) -> None:
        if me.epoch != self.broker_epoch:
            logger.info("event=registered broker=%d epoch=%d", self._broker_id, me.epoch)
        self._registered = me

    def occupied(self) -> None:
        """The id is somebody else's. A broker that has been in the cluster goes on waiting: it has nowhere to go back
        to.
        """
        logger.error("event=broker-id-taken broker=%d: another process is registered with it", self._broker_id)
        if self._joined is not None:
            joined, self._joined, self._me = self._joined, None, None
            self._end()
            message = f"Another broker is registered with the id {self._broker_id}."
            call(joined, KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, message))

    def loaded(self) -> None:
        self.refusal = ""
        if self._joined is not None:
            joined, self._joined = self._joined, None
            call(joined, None)

    def applied(self, changes: Sequence[Change]) -> None:
        call(self.on_applied, changes)

    def controls(self, is_controller: bool) -> None:
        logger.info("event=controller broker=%d active=%s", self._broker_id, is_controller)
        call(self.on_controller, is_controller)

    # --- inside

    def _refuse(self, done: Done, error: KafkaError) -> None:
        """Not inside the call: whoever tries again at once would never come to an end."""
        self._scheduler.call_soon(lambda: None if self._is_closed else call(done, error))

    def _state_changed(self, state: SessionState) -> None:
        if self._is_closed:
            return
        self._has_session = state is SessionState.CONNECTED
        if self._has_session:
            self._begin()
        else:
            self._end()

    def _begin(self) -> None:
        self._end()
        if not self._has_session or self._is_closed:
            return
        life = self._life = Lifetime(self._failed)
        if self._connected is not None:
            Opening(self._coordination, life, self._image.cluster_id, self._opened).start()
        elif self._me is not None:
            me = self._me
            if self._registered is not None:  # this process lost nothing when its session ended
                known = self._registered
                me = replace(me, previous_epoch=known.epoch, data_since=known.data_since)
            self._attempt = Attempt(self._coordination, self._scheduler, self._image, me, life, self)
            self._attempt.start(self._patience_ms)

    def _end(self) -> None:
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.resign()
        if self._life is not None:
            self._life.end()

    def _failed(self, error: CoordinationError) -> None:
        """Mostly the session has been lost, and its end or its return is told as well; if not, it is tried again."""
        refusal = sentence(error) if isinstance(error, NotAuthorized) else ""
        if refusal and refusal != self.refusal:
            logger.error("event=zookeeper-refuses reason=%r note='it is tried again'", refusal)
        else:
            logger.info("event=cluster-attempt-failed problem=%r", str(error))
        self.refusal = refusal
        self._end()
        life = self._life
        self._scheduler.call_later(_AGAIN_MS, lambda: self._begin() if self._life is life else None)

    def _opened(self, cluster_id: str) -> None:
        self._image.cluster_id = cluster_id
        connected, self._connected = self._connected, None
        if connected is not None:
            call(connected, cluster_id)
        if self._me is not None and self._attempt is None:
            self._begin()
