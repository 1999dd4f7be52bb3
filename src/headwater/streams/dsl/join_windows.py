"""`JoinWindows`: how far apart in time two records may be that meet in a stream-stream join."""

from dataclasses import dataclass, replace

from headwater.base.errors import UserError
from headwater.streams.dsl.windows import Duration, milliseconds


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """A record of the other side may be up to `before_ms` older and up to `after_ms` younger. Late ones count for
    `grace_ms`. Each may be a duration as windows have it ("5s").

    `eager`: a left or outer join says at once that a record has met nobody, and again when it has: as Kafka Streams did
    before KIP-633, and as ksqlDB does where a join has no grace period.
    """

    before_ms: int
    after_ms: int
    grace_ms: int = 0
    eager: bool = False

    def __post_init__(self) -> None:
        for name, what in (("before_ms", "time before"), ("after_ms", "time after"), ("grace_ms", "grace")):
            object.__setattr__(self, name, milliseconds(getattr(self, name), what))
        if self.before_ms + self.after_ms < 0:
            raise UserError(
                "A join window ends before it begins", f"{self.before_ms} ms before and {self.after_ms} ms after"
            )
        if self.grace_ms < 0:
            raise UserError(f"A grace of {self.grace_ms} ms is negative")

    @classmethod
    def of(cls, difference_ms: Duration, *, grace_ms: Duration = 0) -> "JoinWindows":
        """As far before as after: milliseconds, or as windows have it ("5s")."""
        most_ms = milliseconds(difference_ms, "time difference")
        if most_ms < 0:
            raise UserError(f"A time difference of {most_ms} ms is negative")
        return cls(most_ms, most_ms, milliseconds(grace_ms, "grace"))

    def before(self, before_ms: int) -> "JoinWindows":
        return replace(self, before_ms=before_ms)

    def after(self, after_ms: int) -> "JoinWindows":
        return replace(self, after_ms=after_ms)

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms
