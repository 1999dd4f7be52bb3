"""The first look at a ZooKeeper whose ACLs do not let us make what is not there."""

from collections.abc import Callable, Sequence
from typing import Any

from headwater.base.coordination import (
    CoordinationError,
    Create,
    Node,
    NodeMissing,
    NotAuthenticated,
    NotAuthorized,
    SessionState,
    Write,
)
from headwater.base.errors import ErrorCode
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.lifetime import Lifetime
from headwater.metadata.cluster.opening import Opening
from headwater.metadata.cluster.refusals import meaning, sentence


class Guarded:
    """Has some nodes; making others is refused as ZooKeeper does: first the parent's ACL is looked at, then whether it
    is there.
    """

    on_state: Callable[[SessionState], None]
    session_id = 1

    def __init__(self, present: set[str], refusal: type[CoordinationError] = NotAuthorized) -> None:
        self.present = present
        self.refusal = refusal
        self.waiting: list[Callable[[], None]] = []

    def write(self, writes: Sequence[Write], done: Callable[[Any, CoordinationError | None], None]) -> None:
        (write,) = writes
        assert isinstance(write, Create)
        parent = write.path.rpartition("/")[0]
        error = self.refusal if not parent or parent in self.present else NodeMissing
        self.waiting.append(lambda: done(None, error(write.path)))

    def get(self, path: str, done: Callable[[Any, CoordinationError | None], None], _watch: object = None) -> None:
        data = layout.encode_cluster_id("abc") if path == layout.CLUSTER_ID else b""
        found = Node(data, 0, 1) if path in self.present else None
        self.waiting.append(lambda: done(found, None))

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def opened(coordination: Guarded) -> tuple[list[str], list[CoordinationError]]:
    ids: list[str] = []
    problems: list[CoordinationError] = []

    def failed(error: CoordinationError) -> None:
        problems.append(error)
        life.end()

    life = Lifetime(failed)
    Opening(coordination, life, "new", ids.append).start()  # type: ignore[arg-type]
    coordination.run()
    return ids, problems


def test_who_may_not_make_what_is_there_already_needs_not() -> None:
    everything = {path for path, _ in layout.BASE_NODES} | {layout.CLUSTER_ID}
    assert opened(Guarded(everything)) == (["abc"], [])


def test_the_refusal_is_told_and_not_what_comes_of_it() -> None:
    ids, problems = opened(Guarded(set()))
    assert not ids
    assert [(type(each), each.path) for each in problems] == [(NotAuthorized, layout.BASE_NODES[0][0])]


def test_without_an_identity_it_is_of_no_use_to_look() -> None:
    _, problems = opened(Guarded({path for path, _ in layout.BASE_NODES}, NotAuthenticated))
    assert [type(each) for each in problems] == [NotAuthenticated]


def test_refusals_are_sentences_with_the_path() -> None:
    told = meaning(NotAuthorized("/config/users/alice"))
    assert (told.code, told.message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "The ACLs in ZooKeeper do not let this broker use /config/users/alice.",
    )
    assert "does not know this broker by any login" in sentence(NotAuthenticated("/a"))
