"""What the leader of a group does for the others: writes configs, decides who runs what, fences tasks that are over.

A worker leads while the group says so; before it writes for the first time it takes the transactional id of the leader,
which fences the one before, and asks the group whether it is still a member: one that was asleep finds that it is not.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from headwater.base.errors import KafkaError
from headwater.client import Admin
from headwater.connect.distributed.assignor import CONNECTOR, Memory, Resources, assign
from headwater.connect.distributed.config_records import ConfigRecord, TaskConfig, TaskCount, TasksCommit
from headwater.connect.distributed.config_state import ConfigState
from headwater.connect.distributed.group_protocol import Assignment, MemberState
from headwater.connect.distributed.peers import new_session_key
from headwater.connect.distributed.stores import ConfigStore, Fenced
from headwater.connect.distributed.transactional_worker import transactional_id
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.refusals import Conflict, NotFound
from headwater.connect.runtime.task import State, TaskId

logger = logging.getLogger("headwater.connect")

REBALANCING: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


def configured(state: ConfigState) -> Resources:
    """All that is to run somewhere: every connector, stopped ones too, and their tasks."""
    connectors = {TaskId(name, CONNECTOR) for name in state.configs}
    return frozenset(connectors | {task for name in state.configs for task in state.task_ids(name)})


class Leader:
    """`is_member` asks the group. The lock makes one write of several calls: what is decided is still true when it is
    written.
    """

    def __init__(
        self,
        store: ConfigStore,
        admin: Admin,
        group: str,
        is_member: Callable[[], bool],
        *,
        delay_max_ms: int,
        key_ttl_ms: int,
    ) -> None:
        self._store, self._admin, self._group, self._is_member = store, admin, group, is_member
        self._delay_max_ms, self._key_ttl_ms = delay_max_ms, key_ttl_ms
        self.lock = threading.RLock()
        self._leads = False
        self._claimed = False
        self._memory = Memory()
        self._decided_for: Resources | None = None
        self._urls: dict[str, str] = {}

    # What the group says; by the membership's thread

    def decide(self, members: Mapping[str, MemberState], leader: str) -> dict[str, Assignment]:
        url = members[leader].url
        try:
            wanted = configured(self._store.refreshed())
        except (ConnectError, KafkaError) as error:
            logger.warning("event=not-decided reason=%r", str(error)[:500])
            return {member: Assignment(leader, url, each.held, failed=True) for member, each in members.items()}
        held = {member: each.held for member, each in members.items()}
        decided = assign(held, wanted, self._memory, time.monotonic_ns() // 1_000_000, self._delay_max_ms)
        self._memory, self._decided_for = decided.memory, wanted
        self._urls = {member: each.url for member, each in members.items()}
        return {
            member: Assignment(leader, url, share.assigned, share.revoked, delay_ms=decided.delay_ms)
            for member, share in decided.shares.items()
        }

    def elected(self, leads: bool) -> None:
        if not leads:
            self._memory, self._decided_for = Memory(), None
        if leads is not self._leads:
            self._leads, self._claimed = leads, False
            if not leads:
                self._store.resign()

    def url_of(self, resource: TaskId) -> str | None:
        """Who runs it, as it was decided."""
        owner = next((member for member, mine in self._memory.assigned.items() if resource in mine), None)
        return self._urls.get(owner) if owner is not None else None

    def is_out_of_date(self, state: ConfigState) -> bool:
        """Whether there is something that nobody was given, or given that is gone."""
        return self._leads and self._decided_for is not None and configured(state) != self._decided_for

    # Writing

    def write(self, *records: ConfigRecord) -> ConfigState:
        """Raises Conflict if another leads."""
        with self.lock:
            self.claim()
            try:
                return self._store.write(*records)
            except Fenced as error:
                self._claimed = False
                raise Conflict(str(error)) from None
            except ConnectError:
                self._claimed = False  # the producer is given up: the next write takes the id anew
                raise

    def claim(self) -> None:
        with self.lock:
            if self._claimed:
                return
            if not self._leads or not self._is_member():
                raise Conflict(REBALANCING)
            self._store.claim()
            if not self._is_member():
                self._store.resign()
                raise Conflict(REBALANCING)
            self._store.refreshed()
            self._claimed = True

    def keep_session_key(self) -> None:
        with self.lock:
            key, now_ms = self._store.snapshot().session_key, time.time_ns() // 1_000_000
            if key is None or now_ms - key.created_ms >= self._key_ttl_ms:
                self.write(new_session_key(now_ms))

    def put_tasks(self, connector: str, tasks: list[dict[str, str]]) -> None:
        with self.lock:
            state = self._store.refreshed()
            if connector not in state.configs:
                raise NotFound(f"Connector {connector} not found")
            if state.target(connector) is State.STOPPED:  # asked for before it was
                raise Conflict(f"Connector {connector} is stopped: it has no tasks")
            written = [TaskConfig(TaskId(connector, number), each) for number, each in enumerate(tasks)]
            self.write(*written, TasksCommit(connector, len(tasks)))

    def fence(self, connector: str, *, always: bool = False) -> None:
        """Tasks of the sets before can write nothing when this returns, and the new ones may begin."""
        with self.lock:
            self.claim()
            state = self._store.refreshed()
            if connector not in state.unfenced and not always:
                return
            before = state.task_counts.get(connector, 0)
            names = [transactional_id(self._group, TaskId(connector, number)) for number in range(before)]
            for name, outcome in self._admin.fence_producers(names).items() if names else ():
                if isinstance(outcome, KafkaError):
                    raise ConnectError(f"Failed to fence the producer {name}: {outcome}")
            self.write(TaskCount(connector, len(state.tasks.get(connector, ()))))
