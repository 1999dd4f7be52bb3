"""A member of a group of one's own, by hand: it sends a heartbeat when it is told to, and no other."""

from datetime import timedelta
from typing import Any

from compat.support.raw import Raw, message, wait_until


class Member:
    """The only member of its group, by the classic protocol."""

    def __init__(self, bootstrap: str, group: str, session_timeout_ms: int) -> None:
        self._group = group
        self._connection = Raw(bootstrap)
        wait_until(lambda: self._find() == 0, "coordinated")
        joined = self._join(session_timeout_ms, "")
        if joined.error_code == 79:  # MEMBER_ID_REQUIRED
            joined = self._join(session_timeout_ms, joined.member_id)
        assert joined.error_code == 0, joined
        self.member_id, self.generation = joined.member_id, joined.generation_id
        assignment = message("sync_group", 3, "SyncGroupRequestAssignment")(member_id=self.member_id, assignment=b"")
        synced = self._connection.call(
            message("sync_group", 3, "SyncGroupRequest")(
                group_id=group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=None,
                assignments=(assignment,),
            )
        )
        assert synced.error_code == 0, synced

    def _find(self) -> int:
        request = message("find_coordinator", 2, "FindCoordinatorRequest")(key=self._group, key_type=0)
        return int(self._connection.call(request).error_code)

    def _join(self, session_timeout_ms: int, member_id: str) -> Any:
        protocol = message("join_group", 5, "JoinGroupRequestProtocol")(name="range", metadata=b"")
        request = message("join_group", 5, "JoinGroupRequest")(
            group_id=self._group,
            session_timeout=timedelta(milliseconds=session_timeout_ms),
            rebalance_timeout=timedelta(seconds=30),
            member_id=member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        return self._until_loaded(request)

    def _until_loaded(self, request: Any) -> Any:
        """A coordinator that has only just come may still read its log, or not be one yet."""
        answers: list[Any] = []

        def is_loaded() -> bool:
            answers.append(self._connection.call(request))
            return answers[-1].error_code not in (14, 15, 16)

        wait_until(is_loaded, "loaded")
        return answers[-1]

    def heartbeat(self) -> int:
        """The error code."""
        self._connection.socket.settimeout(60)
        request = message("heartbeat", 3, "HeartbeatRequest")(
            group_id=self._group, generation_id=self.generation, member_id=self.member_id, group_instance_id=None
        )
        return int(self._connection.call(request).error_code)

    def close(self) -> None:
        self._connection.socket.close()
