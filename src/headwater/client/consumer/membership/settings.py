"""The settings of a membership, as the consumer's table of settings gives them."""

from dataclasses import dataclass

from headwater.client.consumer.assignors.spec import Assignor


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """Kafka's names and defaults. The broker decides the session timeout and the interval of the consumer protocol."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    rack_id: str | None = None  # client.rack
    assignors: tuple[Assignor, ...] = ()  # partition.assignment.strategy, in order of preference; classic only
    remote_assignor: str | None = None  # group.remote.assignor; consumer protocol only
