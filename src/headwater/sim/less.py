"""What a world goes without, so that a failure can be told with as little as it needs (`shrinking.py`).

Each fault and each client draws from a random stream of its own. So a world that goes without one of them is the same
otherwise, until what it would have done makes a difference.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Less:
    faults: frozenset[int] = frozenset()  # by their number, from 1 on
    clients: frozenset[str] = frozenset()
    cuts: bool = False  # connections that end for no reason

    @classmethod
    def parse(cls, text: str) -> "Less":
        """As `__str__` writes it: numbers of faults (`3`, `5-9`), names of clients, `cuts`."""
        faults: set[int] = set()
        clients: set[str] = set()
        for word in text.replace(",", " ").split():
            first, _, last = word.partition("-")
            if first.isdecimal():
                faults.update(range(int(first), int(last or first) + 1))
            elif word != "cuts":
                clients.add(word)
        return cls(frozenset(faults), frozenset(clients), "cuts" in text.replace(",", " ").split())

    def __str__(self) -> str:
        return ",".join([*_ranges(self.faults), *sorted(self.clients), *(["cuts"] if self.cuts else [])])


def _ranges(numbers: frozenset[int]) -> list[str]:
    firsts = sorted(number for number in numbers if number - 1 not in numbers)
    lasts = sorted(number for number in numbers if number + 1 not in numbers)
    return [str(first) if first == last else f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)]


NOTHING = Less()
