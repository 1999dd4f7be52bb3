"""One attempt to be part of the cluster: register, load, follow, stand for election. It lasts as long as its
connection.

When anything in it fails, or the connection is lost, all of it is over, and another one begins from the start: whatever
happened in between is found by loading everything again.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from headwater.base.coordination import Check, Coordination, CoordinationError, Written
from headwater.base.ids import BrokerId
from headwater.base.ports import Scheduler
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.change_follower import ChangeFollower
from headwater.metadata.cluster.changes import Announced, apply_news
from headwater.metadata.cluster.committing import Committing
from headwater.metadata.cluster.difference import Snapshot, difference, members_difference
from headwater.metadata.cluster.election import Election
from headwater.metadata.cluster.foreign_changes import ForeignChanges
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.loading import Loading
from headwater.metadata.cluster.members import Members, Membership
from headwater.metadata.cluster.proposing import Proposing
from headwater.metadata.cluster.refusals import is_disconnection
from headwater.metadata.cluster.registration import Registration
from headwater.metadata.cluster.removing import Trimming
from headwater.metadata.cluster.tidying import Tidying
from headwater.metadata.image import BrokerState, Change, ClusterImage, ControllerElected

logger = logging.getLogger("headwater.metadata")


class Owner(Protocol):
    """What an attempt tells: it is the store."""

    def registered(self, me: BrokerState) -> None: ...

    def occupied(self) -> None: ...

    def loaded(self) -> None: ...

    def applied(self, changes: Sequence[Change]) -> None: ...

    def controls(self, is_controller: bool) -> None: ...


class Attempt:
    def __init__(
        self,
        coordination: Coordination,
        scheduler: Scheduler,
        image: ClusterImage,
        me: BrokerState,
        life: Lifetime,
        owner: Owner,
    ) -> None:
        self.life = life
        self.following: ChangeFollower | None = None
        self.proposing: Proposing | None = None
        self.committing: Committing | None = None
        """Only while this broker is the active controller."""
        self._coordination = coordination
        self._scheduler = scheduler
        self._image = image
        self._me = me
        self._owner = owner
        self._membership = Membership(coordination, life, self._members_read)
        self._election = Election(
            coordination, life, me.broker_id, self._controller_known, self._election_won, self.resign
        )
        self._term = life.part()  # as controller: from the election on
        self._guard_version: int | None = None  # of the term, once it writes
        self._trimming: Trimming | None = None
        self._members: Members = {}

    def start(self, patience_ms: int) -> None:
        Registration(
            self._coordination,
            self._scheduler,
            self.life,
            self._me,
            patience_ms,
            self._registered,
            self._owner.occupied,
        ).start()

    # --- the image

    def _registered(self, me: BrokerState) -> None:
        """Registering was a write: from now on this session sees all that was committed before it."""
        self._owner.registered(me)
        self._coordination.children(layout.CHANGES, self.life.bind(self._position_read))

    def _position_read(self, names: list[str] | None, error: CoordinationError | None) -> None:
        if error is not None or names is None:
            self.life.fail(error or CoordinationError(layout.CHANGES))
            return
        next_sequence = layout.sequence_of(names[-1]) + 1 if names else 0
        load = Loading(self._coordination, self.life, partial(self._nodes_read, next_sequence)).start
        self._membership.refresh(load)

    def _nodes_read(self, next_sequence: int, snapshot: Snapshot) -> None:
        if snapshot.cluster_id != self._image.cluster_id:
            logger.error(
                "event=wrong-cluster expected=%r found=%r: ZooKeeper has lost its data, or another one is asked",
                self._image.cluster_id,
                snapshot.cluster_id,
            )
            self.life.fail(CoordinationError(layout.CLUSTER_ID))
            return
        self._apply([*members_difference(self._members, self._image), *difference(snapshot, self._image)])
        self._image.empty_acl_nodes = {pattern for pattern, rules in snapshot.acls.items() if not rules}
        self._image.client_directories = snapshot.client_directories
        self._image.empty_entity_nodes = snapshot.empty_entities()
        self._image.empty_group_nodes = {group for group, config in snapshot.group_configs.items() if not config}
        if self.life.is_over:
            return
        following = ChangeFollower(self._coordination, self.life, next_sequence, self._entry_read, self._entries_listed)
        self.following = following
        self.proposing = Proposing(self._coordination, self._scheduler, self.life, self._image, following)
        self._owner.loaded()
        if not self.life.is_over:
            following.start()
            self._election.stand()

    def _members_read(self, members: Members) -> None:
        """Until the image has been loaded they are kept: all of that is applied at once."""
        self._members = members
        if self._me.broker_id not in members:
            self.life.fail(CoordinationError(layout.broker_path(self._me.broker_id)))  # somebody deleted it
        elif self.following is not None:
            self._apply(members_difference(members, self._image))

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self._image.apply(change)
        if changes:
            self._owner.applied(changes)

    def _entry_read(self, changes: Sequence[Announced]) -> None:
        news = apply_news(changes, self._image)
        if news:
            self._owner.applied(news)

    def _entries_listed(self, names: Sequence[str]) -> None:
        if self._trimming is not None:
            self._trimming.listed(names)

    # --- the controller

    def _controller_known(self, broker_id: BrokerId, epoch: int) -> None:
        if (broker_id, epoch) != (self._image.controller_id, self._image.controller_epoch):
            self._apply([ControllerElected(broker_id, epoch)])

    def _election_won(self, guard_version: int) -> None:
        """Nothing of an older controller is taken from now on:
        all that it wrote is in the log already, or was refused.
        """
        assert self.following is not None
        self._term = self.life.part()
        catch_up = partial(self.following.catch_up, self._term.bind(partial(self._tidy, guard_version)))
        self._membership.refresh(self._term.bind(catch_up))

    def _tidy(self, guard_version: int) -> None:
        ready = self._term.bind(partial(self._begin_term, guard_version))
        refused = self._term.bind(self._tidying_refused)
        Tidying(self._coordination, self._term, self._image, guard_version, ready, refused).start()

    def _tidying_refused(self, error: CoordinationError) -> None:
        if is_disconnection(error):
            self.life.fail(error)
        else:
            self.resign()
            self._election.stand()

    def _begin_term(self, guard_version: int) -> None:
        """What others announced while there was no controller is taken over first: a commit that is planned without it
        would write over it.
        """
        assert self.following is not None
        self._guard_version = guard_version
        committing = Committing(
            self._coordination, self.life, self._image, self.following, guard_version, self._deposed
        )
        self._trimming = Trimming(self._coordination, self.life, guard_version)
        foreign = ForeignChanges(
            self._coordination, self.life, self._term, self._image, committing, self.following, self._deposed
        )
        committing.on_written = foreign.written
        committing.take_over = foreign.take_now
        foreign.start(self._term.bind(partial(self._control, committing)))

    def _control(self, committing: Committing) -> None:
        self.committing = committing
        self._owner.controls(True)

    def read_members(self, done: Callable[[], None]) -> None:
        """`done` once the image has who is registered now. What another session wrote is seen for sure only after a
        write: this one changes nothing.
        """
        assert self.committing is not None
        guard_version = self.committing.guard_version

        def checked(_written: list[Written] | None, error: CoordinationError | None) -> None:
            if error is None:
                self._membership.refresh(done)
            elif is_disconnection(error):
                self.life.fail(error)
            else:
                self._deposed(guard_version)

        self._coordination.write([Check(layout.CONTROLLER_EPOCH, guard_version)], self.life.bind(checked))

    def _deposed(self, guard_version: int) -> None:
        """A write was refused: there is another controller. Unless it was a write of an earlier term."""
        if self._guard_version == guard_version:
            self.resign()
            self._election.stand()

    def resign(self) -> None:
        self._term.end()
        was_controller = self.committing is not None
        self.committing = self._trimming = self._guard_version = None
        if was_controller:
            self._owner.controls(False)
