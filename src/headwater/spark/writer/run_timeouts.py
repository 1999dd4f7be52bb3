"""Which run of a query has begun a transaction: its time-out tells. Pure.

All runs of a query use the same transactional ids, so that each fences those before it. Of an open transaction, a
coordinator tells the producer, the time-out and when it began: by the clock of a broker, and a successor may begin
before its predecessor ends. So each run takes a time-out of its own, up to a fifteenth shorter than what is allowed,
and never just that.

Two runs have the same one about once in 60,000 pairs, with the usual 15 minutes. Then one may abort what the other has
open, when it ends while that one writes: to it, that is a time-out which comes early.
"""

import zlib
from typing import Final

_SHORTER_BY: Final = 15


def timeout_of_run(longest_ms: int, run: str) -> int:
    """The time-out of the transactions of this run; of a run without a name, the longest."""
    choices = longest_ms // _SHORTER_BY
    if not run or not choices:
        return longest_ms
    return longest_ms - 1 - zlib.crc32(run.encode()) % choices
