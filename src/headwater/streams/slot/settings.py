"""How an application runs: where its state lies, how often and how surely it commits. By Kafka Streams' names where it
has them.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.client.consumer import consumer_settings
from headwater.client.settings import admin, common, producer
from headwater.streams.plan.sources import RESET_SETTING, check_reset

EXACTLY_ONCE: Final = "exactly_once_v2"
AT_LEAST_ONCE: Final = "at_least_once"
_CONSUMER: Final = consumer_settings.CONSUMER.keys() | consumer_settings.OLD_NAMES
_PRODUCER: Final = producer.PRODUCER.keys() | producer.OLD_NAMES
_ADMIN: Final = admin.ADMIN.keys() | common.OLD_NAMES


@dataclass(frozen=True, slots=True)
class RunSettings:
    brokers: str
    state_dir: Path
    commit_interval_ms: int = 100
    processing_guarantee: str = EXACTLY_ONCE
    buffered_records_per_partition: int = 1000
    transaction_timeout_ms: int = 60_000
    repartition_purge_interval_ms: int = 30_000
    num_standby_replicas: int = 0
    """How many slots, beside its owner, keep a copy of each task's state: on other machines than the owner's.
    On Spark.
    """
    acceptable_recovery_lag: int = 10_000
    """How many changelog offsets a copy may be behind for its task to move there."""
    max_warmup_replicas: int = 2
    """How many tasks at a time are copied to where they are to move, until the copy is near enough. On Spark."""
    cache_max_bytes: int | None = None
    """Of the record cache of each slot, `statestore.cache.max.bytes`: of a key's changes between two commits only the
    last goes on. 0: there is none. None: as the application's `config` says, which is none by default.
    """
    emit_interval_ms: int = 1000
    """The results of windows and outer joins that have closed are looked for so often, by the clock,
    as in Kafka Streams. 0: with every record.
    """
    leave_on_stop: bool = True
    """A clean stop leaves the group empty at once, so that it can be reset. False: the member stays until its session
    ends, and a run that comes before that need not wait for a first rebalance.
    """
    allow_state_loss: bool = False
    """Starts also where the topology has changed so that state of the former run would be lost."""
    queries: int | None = None
    """The port for interactive queries over HTTP, 0 for any that is free; None: there are none."""
    queries_host: str = "127.0.0.1"
    queries_token: str | None = None
    """The secret that queries need; by default one is made for the run."""
    queries_door: Mapping[str, str] | None = None
    """TLS and a login for queries: `ssl.*`, `authentication.method=BASIC`, as all HTTP doors have them."""
    client: Mapping[str, Any] = field(default_factory=dict)
    """Further settings of consumers, producer and admin client: security, buffers.
    Each client takes those that it knows.
    """

    def refuse_door_of_slots(self) -> None:
        """Several slots answer together, and ask each other in plain HTTP: they would be open where a login was asked
        for. Raises UserError.
        """
        if self.queries is not None and self.queries_door is not None:
            raise UserError(
                "queries_door cannot be used on Spark",
                "doors of slots have no TLS and no login yet",
                "Leave it out: queries need the secret of the run then; or run the application in one process",
            )

    def __post_init__(self) -> None:
        if self.processing_guarantee not in (EXACTLY_ONCE, AT_LEAST_ONCE):
            raise UserError(
                f"processing_guarantee cannot be {self.processing_guarantee!r}",
                "",
                f"It is {EXACTLY_ONCE!r} or {AT_LEAST_ONCE!r}",
            )
        if self.commit_interval_ms < 1:
            raise UserError(f"commit_interval_ms cannot be {self.commit_interval_ms}", "it is at least 1 ms")
        for name in ("num_standby_replicas", "acceptable_recovery_lag"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} cannot be {getattr(self, name)}", "it is 0 or more")
        if self.max_warmup_replicas < 1:
            raise UserError(f"max_warmup_replicas cannot be {self.max_warmup_replicas}", "no task could ever move")
        if self.cache_max_bytes is not None and self.cache_max_bytes < 0:
            raise UserError(f"cache_max_bytes cannot be {self.cache_max_bytes}", "it is 0 or more")
        if self.emit_interval_ms < 0:
            raise UserError(f"emit_interval_ms cannot be {self.emit_interval_ms}", "it is at least 0 ms")
        if self.queries_token is not None:
            check_token(self.queries_token)
        unknown = [name for name in self.client if not any(name in table for table in (_CONSUMER, _PRODUCER, _ADMIN))]
        if unknown:
            raise UserError(f"There is no setting {unknown[0]!r}", "no consumer, producer or admin client has it")
        check_reset(self.client.get(RESET_SETTING))

    @property
    def exactly_once(self) -> bool:
        return self.processing_guarantee == EXACTLY_ONCE

    @property
    def for_consumers(self) -> dict[str, Any]:
        """Without the place where inputs begin: that of each is known before it is read (`start_offsets`)."""
        return {name: value for name, value in self._known_to(_CONSUMER).items() if name != RESET_SETTING}

    @property
    def for_inputs(self) -> dict[str, Any]:
        """Of the consumer that reads what tasks process, but for where it goes on when a log does not hold its position
        any more. Whoever wants no aborted records may say so where exactly once does not.
        """
        fixed = {"enable.auto.commit": False}
        isolation = {"isolation.level": "read_committed"} if self.exactly_once else {}
        return {"isolation.level": "read_uncommitted", **self.for_consumers, **fixed, **isolation}

    @property
    def for_producers(self) -> dict[str, Any]:
        return self._known_to(_PRODUCER)

    @property
    def for_admins(self) -> dict[str, Any]:
        return self._known_to(_ADMIN)

    def _known_to(self, table: Container[str]) -> dict[str, Any]:
        """What this kind of client takes: each has settings that the others refuse."""
        return {"bootstrap.servers": self.brokers} | {k: v for k, v in self.client.items() if k in table}


def check_token(token: str) -> str:
    """One that was given: what goes into a header, and is not guessed."""
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise UserError("The secret for queries is no good", "it needs at least 16 printable characters without spaces")
    return token
