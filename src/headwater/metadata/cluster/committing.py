"""What the controller commits: one commit after the other, each planned from the image that all before it have changed.

Nodes that others write too (shared_nodes.py) are read before, and written over the version that was read. What they say
that the image does not have is taken into the log instead, and the commit is refused with ChangedMeanwhile.

Of one term as controller: its guard is the version of /controller_epoch that the election gave, and once that is
refused, so is everything that still waits here.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from headwater.base.coordination import (
    Coordination,
    CoordinationError,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    Written,
    WrongVersion,
)
from headwater.base.errors import KafkaError
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.change_follower import ChangeFollower
from headwater.metadata.cluster.lifetime import Done, Lifetime
from headwater.metadata.cluster.notifications import Entity
from headwater.metadata.cluster.planning import Piece, Versions, plan
from headwater.metadata.cluster.refusals import is_deposition, is_disconnection, meaning
from headwater.metadata.cluster.removing import Removal
from headwater.metadata.cluster.shared_nodes import SharedNodes
from headwater.metadata.image import Change, ChangedMeanwhile, ClusterImage

Job = Callable[[Callable[[], None]], None]
_RACES = (WrongVersion, NodeExists, NodeMissing, NodeHasChildren)


class Committing:
    def __init__(
        self,
        coordination: Coordination,
        life: Lifetime,
        image: ClusterImage,
        following: ChangeFollower,
        guard_version: int,
        deposed: Callable[[int], None],
    ) -> None:
        self.guard_version = guard_version
        self._coordination = coordination
        self._life = life
        self._image = image
        self._following = following
        self._deposed = deposed
        self.on_written: Callable[[Sequence[Written]], None] = lambda _written: None
        """What came of each piece, before anybody else hears of it."""
        self.take_over: Callable[[Sequence[Entity], Callable[[], None]], None] = lambda _entities, over: over()
        """Takes what others have written there into the log, and calls back when it is in the image."""
        self._shared: frozenset[str] = frozenset()  # the nodes of the commit under way that others write too
        self._queue: deque[tuple[Sequence[Change], Done] | Job] = deque()
        self._is_busy = False

    def commit(self, changes: Sequence[Change], done: Done) -> None:
        self._queue.append((changes, self._life.owe(done)))
        self._run()

    def exclusively(self, job: Job) -> None:
        """`job` begins when all commits before it are in the image, and gets what it calls at its end: until then, none
        follows.
        """
        self._queue.append(job)
        self._run()

    def _run(self) -> None:
        while self._queue and not self._is_busy and not self._life.is_over:
            item = self._queue.popleft()
            if callable(item):
                self._is_busy = True
                item(self._life.bind(self._over))
                continue
            self._is_busy = True
            self._begin(*item)

    def _begin(self, changes: Sequence[Change], done: Done) -> None:
        refused = partial(self._refused, done=done)
        read = partial(self._shared_read, changes, done)
        shared = SharedNodes(self._coordination, self._life, self._image, changes, read, refused)
        self._shared = frozenset(shared.paths)
        if shared.paths:
            shared.start()
        else:
            self._plan(changes, done, {})

    def _shared_read(self, changes: Sequence[Change], done: Done, versions: Versions, news: Sequence[Entity]) -> None:
        if news:
            self.take_over(news, self._life.bind(partial(self._finish, done, ChangedMeanwhile())))
        else:
            self._plan(changes, done, versions)

    def _plan(self, changes: Sequence[Change], done: Done, versions: Versions) -> None:
        try:
            pieces = plan(changes, self._image, self.guard_version, versions)
        except KafkaError as refused:
            self._finish(done, refused)
            return
        if pieces:
            self._write(deque(pieces), done)
        else:
            self._finish(done, None)

    def _write(self, pieces: deque[Piece], done: Done) -> None:
        piece = pieces.popleft()
        answered = partial(self._written, piece, pieces, done)
        self._coordination.write(piece.writes, self._life.bind(answered))

    def _written(
        self,
        piece: Piece,
        rest: deque[Piece],
        done: Done,
        written: list[Written] | None,
        error: CoordinationError | None,
    ) -> None:
        if error is not None or written is None:
            self._refused(error or CoordinationError(), done)
            return
        self.on_written(written)
        sequence = layout.sequence_of(str(written[-1]))
        go_on = partial(self._go_on, rest, sequence, done)
        if piece.doomed is None:
            go_on()
        else:
            refused = partial(self._refused, done=done)
            Removal(self._coordination, self._life, piece.doomed, self.guard_version, go_on, refused).start()

    def _go_on(self, rest: deque[Piece], sequence: int, done: Done) -> None:
        if rest:
            self._write(rest, done)
        else:
            self._following.wait_for(sequence, partial(self._finish, done, None))

    def _refused(self, error: CoordinationError, done: Done) -> None:
        if is_disconnection(error):
            self._life.fail(error)
        elif is_deposition(error):
            self._deposed(self.guard_version)
            self._finish(done, meaning(error))
        else:  # the image is behind: whoever plans anew shall see why
            is_race = error.path in self._shared and isinstance(error, _RACES)
            problem = ChangedMeanwhile() if is_race else meaning(error)
            self._following.catch_up(partial(self._finish, done, problem))

    def _finish(self, done: Done, error: KafkaError | None) -> None:
        self._is_busy = False
        done(error)
        self._run()

    def _over(self) -> None:
        self._is_busy = False
        self._run()
