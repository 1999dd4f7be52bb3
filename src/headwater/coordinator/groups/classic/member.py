"""A member of a classic group: what it told us, what it was assigned, and the request that it waits with, if any."""

from dataclasses import dataclass

from headwater.coordinator.effects import Ticket
from headwater.wire.messages.describe_groups import DescribedGroupMember


@dataclass(slots=True)
class ClassicMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[tuple[str, bytes]]  # name and metadata, the preferred one first
    assignment: bytes = b""
    is_new: bool = False  # has never had an answer to a join: it does not know its id and cannot send heartbeats
    join_ticket: Ticket | None = None
    sync_ticket: Ticket | None = None

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_ticket is not None

    @property
    def may_expire(self) -> bool:
        """A request that waits here is as good as a heartbeat, but for that of a new member: it may be long gone."""
        return self.is_new or (self.join_ticket is None and self.sync_ticket is None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol}")

    def vote(self, candidates: set[str]) -> str:
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise AssertionError(f"member {self.member_id} supports no candidate")

    def described(self, protocol: str | None) -> DescribedGroupMember:
        """With metadata and assignment only if a protocol is chosen."""
        member = DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
        )
        if protocol is not None:
            member.member_metadata = self.metadata(protocol)
            member.member_assignment = self.assignment
        return member
