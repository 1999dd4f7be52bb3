"""A damaged index under the compiled hot path of Fetch: it ends an answer where the general way does, at the border of
a batch.
"""

import pytest

from headwater.server import hot_fetch
from unit.server.test_hot_fetch import Pair, append, batch, both, pair, request

__all__ = ["pair"]

pytestmark = pytest.mark.skipif(not hot_fetch.COMPILED, reason="the hot path is not compiled")

ENTRY_BYTES = 8


def test_a_border_of_a_damaged_index_cuts_no_batch(pair: Pair) -> None:
    sides = pair(index_interval_bytes=500)
    for _ in range(30):
        append(sides, 0, batch(2, 150))
    entries = [side.partitions[0].log.active.offset_index.entries for side in sides]
    assert len(entries[0]) >= 3 * ENTRY_BYTES
    for each in entries:
        for last_byte_of_position in range(ENTRY_BYTES - 1, len(each), ENTRY_BYTES):
            each[last_byte_of_position] ^= 4
    for limit in range(400, 6000, 100):
        both(sides, request(("orders", 0, 0), partition_max_bytes=limit))
    assert sides[0].answered_compiled > 0
