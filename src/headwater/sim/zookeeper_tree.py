"""The nodes of a simulated ZooKeeper: one state, changed by whole transactions. It has no time and no randomness.

The same transactions in the same order make the same tree: so a replica of it, which lags, is a copy that applies them
later.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headwater.base.coordination import (
    ANY_VERSION,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    SetData,
    Write,
    Written,
    WrongVersion,
)

NO_OWNER: Final = 0


@dataclass(frozen=True, slots=True)
class Changed:
    """What a transaction did to one path. `children`: one of its children came or went, instead of the node itself."""

    path: str
    children: bool


@dataclass(slots=True)
class _TreeNode:
    data: bytes
    version: int
    created: int
    owner: int
    children: set[str]
    writer: int  # the session that wrote its data last
    creates: int = 0  # ever, under this node: the next sequential number

    def copy(self) -> "_TreeNode":
        return replace(self, children=set(self.children))


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


class Tree:
    def __init__(self) -> None:
        self._nodes: dict[str, _TreeNode] = {"/": _TreeNode(b"", 0, 0, NO_OWNER, set(), NO_OWNER)}

    def copy(self) -> "Tree":
        copied = Tree()
        copied._nodes = {path: node.copy() for path, node in self._nodes.items()}
        return copied

    def get(self, path: str) -> Node | None:
        node = self._nodes.get(path)
        return None if node is None else Node(node.data, node.version, node.created)

    def is_written_by_owner_of(self, path: str, ephemeral: str) -> bool:
        """Whether the session that wrote a node last is the one that an ephemeral node belongs to."""
        node, owned = self._nodes.get(path), self._nodes.get(ephemeral)
        return node is not None and owned is not None and node.writer == owned.owner != NO_OWNER

    def writer_of(self, path: str) -> int:
        """The session that wrote a node last."""
        node = self._nodes.get(path)
        return NO_OWNER if node is None else node.writer

    def children(self, path: str) -> list[str] | None:
        node = self._nodes.get(path)
        return None if node is None else sorted(node.children)

    def paths(self) -> list[str]:
        return sorted(self._nodes)

    def ephemerals_of(self, session_id: int) -> list[str]:
        return sorted(path for path, node in self._nodes.items() if node.owner == session_id)

    def apply(
        self, transaction_id: int, session_id: int, writes: Sequence[Write]
    ) -> tuple[list[Written], list[Changed]]:
        """All of the writes; or raises CoordinationError, and nothing has changed."""
        step = _Step(transaction_id, session_id, self._nodes.get)
        written = [step.write(write) for write in writes]
        for path, node in step.touched.items():
            if node is None:
                self._nodes.pop(path, None)
            else:
                self._nodes[path] = node
        return written, step.changed


class _Step:
    """A transaction being tried: what it touched lies beside the tree until all of it is known to succeed."""

    def __init__(self, transaction_id: int, session_id: int, below: Callable[[str], _TreeNode | None]) -> None:
        self.touched: dict[str, _TreeNode | None] = {}
        self.changed: list[Changed] = []
        self._transaction_id = transaction_id
        self._session_id = session_id
        self._below = below

    def write(self, write: Write) -> Written:
        if isinstance(write, Create):
            return self._create(write)
        node = self._own(write.path)
        if isinstance(write, Check):
            _expect(write.path, write.version, node.version)
            return None
        if isinstance(write, SetData):
            _expect(write.path, write.version, node.version)
            node.data = write.data
            node.version += 1
            node.writer = self._session_id
            self.changed.append(Changed(write.path, children=False))
            return node.version
        self._delete(write, node)
        return None

    def _create(self, write: Create) -> str:
        _check_path(write.path)
        parent_path = parent_of(write.path)
        parent = self._own(parent_path, blame=write.path)
        path = f"{write.path}{parent.creates:010d}" if write.sequential else write.path
        if self._find(path) is not None:
            raise NodeExists(write.path)
        if parent.owner != NO_OWNER:
            raise CoordinationError(write.path)
        parent.creates += 1
        parent.children.add(path.rpartition("/")[2])
        owner = self._session_id if write.ephemeral else NO_OWNER
        self.touched[path] = _TreeNode(write.data, 0, self._transaction_id, owner, set(), self._session_id)
        self.changed += [Changed(path, children=False), Changed(parent_path, children=True)]
        return path

    def _delete(self, write: Delete, node: _TreeNode) -> None:
        _expect(write.path, write.version, node.version)
        if node.children:
            raise NodeHasChildren(write.path)
        parent_path = parent_of(write.path)
        self._own(parent_path).children.remove(write.path.rpartition("/")[2])
        self.touched[write.path] = None
        self.changed += [
            Changed(write.path, children=False),
            Changed(write.path, children=True),
            Changed(parent_path, children=True),
        ]

    def _find(self, path: str) -> _TreeNode | None:
        return self.touched[path] if path in self.touched else self._below(path)

    def _own(self, path: str, blame: str = "") -> _TreeNode:
        """The node, as this transaction may change it."""
        node = self._find(path)
        if node is None:
            raise NodeMissing(blame or path)
        if path not in self.touched:
            node = self.touched[path] = node.copy()
        return node


def _expect(path: str, wanted: int, actual: int) -> None:
    if wanted not in (ANY_VERSION, actual):
        raise WrongVersion(path)


def _check_path(path: str) -> None:
    assert path.startswith("/"), path
    assert len(path) > 1, path
    assert "//" not in path, path
