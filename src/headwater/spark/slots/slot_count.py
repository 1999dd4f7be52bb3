"""How many slots a session has room for, when their number changes, and when they are renewed. Pure."""

import re
from typing import Final

from headwater.base.errors import UserError
from headwater.spark.sessions import is_local

LOST_S: Final = 60.0
_LOCAL_ATTEMPTS: Final = re.compile(r"local\[[^,\]]+,\s*(\d+)\]")
_CLUSTER_ATTEMPTS: Final = 4  # Spark's own


def slots_for(wanted: int | None, cores: int, master: str) -> int:
    """How many slots there are. A slot keeps its core for as long as it lives, so one core must stay free for
    everything else.
    """
    if wanted is None:
        wanted = cores - 1
        if wanted < 1:
            raise UserError(
                f"No core of {master} is left for a slot",
                f"it has {cores}, and one stays free for other work of the session",
                "Give it another core: local[2], or one more executor",
            )
    if wanted < 1:
        raise UserError(f"There cannot be {wanted} slots", "whatever runs in slots needs at least one")
    if wanted >= cores:
        raise UserError(
            f"{wanted} slots leave no core of {master} free",
            f"it has {cores}; slots keep theirs, and other work of the session would wait for ever",
            f"Ask for {max(cores - 1, 1)} slots, or give the session {wanted + 1} cores",
        )
    return wanted


def attempts_of(master: str, setting: str | None) -> int:
    """How often Spark starts a task before it gives up its whole job. `setting`: spark.task.maxFailures."""
    if is_local(master):
        found = _LOCAL_ATTEMPTS.fullmatch(master)
        return int(found[1]) if found is not None else 1
    return int(setting) if setting else _CLUSTER_ATTEMPTS


def is_worn_out(losses: int, attempts: int) -> bool:
    """Whether a slot was lost so often that Spark would soon end all others with it. One try is left over: nobody hears
    of a slot that dies before it has connected.
    """
    return attempts > 1 and losses >= max(attempts - 2, 1)


class SlotCount:
    """Of a cluster whose executors come and go, where the number of slots was left to us: one for each core but one.

    Another number ends the lease of every slot. A cluster that has grown gets more when two looks in a row have seen
    the same: executors that start together come one after the other, and each would end all leases. An executor that
    died is replaced in seconds, as a rule: its slots wait in Spark's queue until then, and all others go on
    undisturbed; only cores that stay away for `LOST_S` take their slots with them.
    """

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._fewer_since: float | None = None
        self._more: int | None = None  # what the last look has seen

    def look(self, cores: int, now: float) -> bool:
        """Whether there are to be more or fewer slots from now on."""
        wanted = max(cores - 1, 1)
        if wanted >= self.slots:
            self._fewer_since = None
        elif self._fewer_since is None:
            self._fewer_since = now
        seen, self._more = self._more, wanted if wanted > self.slots else None
        if wanted == self.slots or (self._fewer_since is not None and now - self._fewer_since < LOST_S):
            return False
        if wanted > self.slots and seen != wanted:
            return False
        self.slots, self._fewer_since, self._more = wanted, None, None
        return True
