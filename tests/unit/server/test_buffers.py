"""The pool of frame buffers: sizes, reuse, and the bound on memory."""

from headwater.server.buffers import SMALLEST_BYTES, BufferPool

MB = 1 << 20


def test_sizes_are_powers_of_two_that_fit() -> None:
    pool = BufferPool(1 << 30)
    assert len(pool.take(1)) == SMALLEST_BYTES
    assert len(pool.take(MB)) == MB
    assert len(pool.take(MB + 1)) == 2 * MB


def test_a_buffer_that_was_given_back_is_used_again() -> None:
    pool = BufferPool(1 << 30)
    first = pool.take(MB)
    pool.give(first)
    assert pool.take(MB) is first
    assert pool.allocated_bytes == MB


def test_only_a_few_buffers_are_kept() -> None:
    pool = BufferPool(1 << 30)
    taken = [pool.take(MB) for _ in range(20)]
    for buffer in taken:
        pool.give(buffer)
    assert pool.allocated_bytes == 0
    again = [pool.take(MB) for _ in range(20)]
    assert sum(any(new is old for old in taken) for new in again) == 8


def test_beyond_the_limit_nothing_is_reserved_until_something_came_back() -> None:
    pool = BufferPool(2 * MB)
    assert pool.reserve(MB)
    assert pool.reserve(MB)
    assert not pool.reserve(1)
    resumed: list[str] = []
    pool.wait(MB, lambda: resumed.append("first"))
    assert resumed == []
    pool.unreserve(MB)
    assert resumed == ["first"]
    assert pool.reserved_bytes == 2 * MB


def test_a_large_frame_is_not_overtaken_by_small_ones() -> None:
    pool = BufferPool(4 * MB)
    assert pool.reserve(MB)
    assert pool.reserve(MB)
    resumed: list[str] = []
    pool.wait(4 * MB, lambda: resumed.append("large"))
    assert not pool.reserve(1), "there would be room, but somebody has waited longer"
    pool.wait(1, lambda: resumed.append("small"))
    pool.unreserve(MB)
    assert resumed == []
    pool.unreserve(MB)
    assert resumed == ["large"]
    pool.unreserve(4 * MB)
    assert resumed == ["large", "small"]


def test_one_alone_gets_its_memory_even_beyond_the_limit() -> None:
    pool = BufferPool(MB)
    assert pool.reserve(8 * MB)
    assert not pool.reserve(1)
