"""What may go wrong in a world, as one struct. `injector.py` makes it happen, at moments that the seed decides."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """The weights say how often each comes up, against the others; 0 is never."""

    interval_ms: int = 700  # on average between two of the weighted faults; 0: none of them
    kill: int = 4  # the process is gone, the page cache stays
    power_loss: int = 4  # what was not synced may be gone, or torn
    clean_restart: int = 3
    clock_jump: int = 2
    disk_full: int = 2
    failed_sync: int = 1  # followed by a power loss: see `Injector._fail_sync`
    slow_disk: int = 3
    stalled_followers: int = 3  # nothing is committed for a while
    cuts_per_mille: int = 8  # of requests and answers: the connection ends there
    followed_percent: int = (
        35  # of partitions: they have another in-sync replica, so that commits come later than appends
    )


NO_FAULTS = Faults(interval_ms=0, cuts_per_mille=0)
_NO_WEIGHTS = {
    field.name: 0 for field in fields(Faults) if field.name not in ("interval_ms", "cuts_per_mille", "followed_percent")
}


def only(*, interval_ms: int = 150, **named: int) -> Faults:
    """The faults that are named, often, and none of the other weighted ones."""
    return Faults(interval_ms=interval_ms, **{**_NO_WEIGHTS, **named})
