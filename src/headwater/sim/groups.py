"""What members of groups were told and what they committed, and whether all of it can be true together.

I13 a committed offset never goes back and never comes from nowhere
I14 a partition has one owner in a generation (classic groups), one owner at a time (KIP-848); who commits with a
    generation that is known to be over is refused

Every commit has an offset of its own, so that what is fetched tells which commit it was. A commit is *settled* when
nobody can apply it any more: it was answered, or its connection is gone. Owned by the world.
"""

from collections.abc import Callable
from typing import Final

from headwater.sim.trace import Violation

OFFSET_BASE: Final = 0x3C0D_0000_0000
_OUTCOMES: Final = {None: "without an answer", True: "acknowledged", False: "refused"}
Key = tuple[str, int]  # group, partition of the one topic that groups read


class Commit:
    def __init__(self, group: str, number: int, sent_at: int) -> None:
        self.group = group
        self.number = number
        self.sent_at = sent_at
        self.settled_at: int | None = None
        self.is_applied: bool | None = None  # None: nobody knows

    @property
    def offset(self) -> int:
        return OFFSET_BASE + self.number


class Claim:
    """A member of a KIP-848 group believes that it owns the partition, until so long after its last heartbeat."""

    def __init__(self, member: str, until_ms: int) -> None:
        self.member = member
        self.until_ms = until_ms


class GroupHistory:
    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._moment = 0
        self._commits: dict[Key, list[Commit]] = {}
        self._count = 0
        self._generations: dict[str, int] = {}
        self._owners: dict[tuple[str, int, int], str] = {}
        self._claims: dict[Key, Claim] = {}

    def now(self) -> int:
        """A new moment: all questions and answers have one, in their order."""
        self._moment += 1
        return self._moment

    # Offsets

    def commit(self, group: str, partition: int, by: str = "somebody") -> Commit:
        self._count += 1
        commit = Commit(group, self._count, self.now())
        self._tell(group, f"{by} commits {commit.number} of partition {partition}")
        self._commits.setdefault((group, partition), []).append(commit)
        return commit

    def settle(self, commit: Commit, *, is_applied: bool | None) -> None:
        self._tell(commit.group, f"the commit of {commit.number} is {_OUTCOMES[is_applied]}")
        commit.settled_at = self.now()
        commit.is_applied = is_applied

    def fetched(self, group: str, partition: int, offset: int, asked_at: int) -> None:
        commits = self._commits.get((group, partition), [])
        name = f"partition {partition} of {group}"
        known = [c for c in commits if c.is_applied and c.settled_at is not None and c.settled_at < asked_at]
        if offset == -1:
            if known:
                raise Violation(f"I13: {name} has lost the offset {known[-1].offset}")
            return
        found = next((commit for commit in commits if commit.offset == offset), None)
        if found is None:
            raise Violation(f"I13: the offset {offset} of {name} comes from nowhere")
        if found.is_applied is False:
            raise Violation(f"I13: the offset {offset} of {name} was refused, and is there")
        after = [c for c in known if found.settled_at is not None and found.settled_at < c.sent_at]
        if after:
            raise Violation(f"I13: {name} went back to {offset}; {after[-1].offset} was committed after it")

    # Classic groups

    def generation(self, group: str) -> int:
        return self._generations.get(group, 0)

    def synced(self, group: str, generation: int, member: str, partitions: list[int]) -> None:
        self._tell(group, f"{member} has partitions {partitions} in generation {generation}")
        self._generations[group] = max(generation, self.generation(group))
        for partition in partitions:
            owner = self._owners.setdefault((group, generation, partition), member)
            if owner != member:
                raise Violation(
                    f"I14: {owner} and {member} both own partition {partition} of {group} in generation {generation}"
                )

    # KIP-848

    def claim(self, group: str, member: str, partitions: set[int], until_ms: int, now_ms: int) -> None:
        """What the member owns from now on, and nothing else."""
        self._tell(group, f"{member} owns partitions {sorted(partitions)} until {until_ms}")
        self.release(group, member, partitions)
        if until_ms <= now_ms:
            return  # the answer came so late that somebody else may be the owner by now
        for partition in partitions:
            other = self._claims.get((group, partition))
            if other is not None and other.member != member and other.until_ms > now_ms:
                raise Violation(f"I14: {other.member} and {member} both own partition {partition} of {group}")
            self._claims[group, partition] = Claim(member, until_ms)

    def release(self, group: str, member: str, kept: set[int]) -> None:
        for key, claim in list(self._claims.items()):
            if key[0] == group and claim.member == member and key[1] not in kept:
                del self._claims[key]
