"""What a slot needs of its lead, which is in the same thread (`lead.membership.Lead`) or at the other end of a
connection (`remote_lead`).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.streams.protocol import task_ownership as protocol


class LeadPort(Protocol):
    @property
    def application_id(self) -> str: ...

    @property
    def admin(self) -> Admin:
        """To ask the cluster with, from the slot's thread."""

    def do(self, step: protocol.Step) -> Any:
        """The steps that only a lead may do: StillMember, TakeProducerId."""

    def member(self) -> protocol.Member:
        """What commits carry now."""

    def tick(self) -> None:
        """Between turns. Raises Replaced when another run has joined."""

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Outside a transaction."""
