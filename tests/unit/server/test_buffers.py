"""The pool of frame buffers: sizes, reuse, and the bound on memory."""

from headwater.server.buffers import SMALLEST_BYTES, BufferPool


def take(pool: BufferPool, size: int) -> bytearray:
    buffer = pool.take(size)
    assert buffer is not None
    return buffer


def test_sizes_are_powers_of_two_that_fit() -> None:
    pool = BufferPool(1 << 30)
    assert len(take(pool, 1)) == SMALLEST_BYTES
    assert len(take(pool, 1 << 20)) == 1 << 20
    assert len(take(pool, (1 << 20) + 1)) == 1 << 21


def test_a_buffer_that_was_given_back_is_used_again() -> None:
    pool = BufferPool(1 << 30)
    first = take(pool, 1 << 20)
    pool.give(first)
    assert take(pool, 1 << 20) is first
    assert pool.held_bytes == 1 << 20


def test_beyond_the_limit_nothing_is_given_until_something_came_back() -> None:
    pool = BufferPool(2 << 20)
    first, _second = take(pool, 1 << 20), take(pool, 1 << 20)
    assert pool.take(1 << 20) is None
    resumed: list[str] = []
    pool.wait(lambda: resumed.append("first"))
    assert resumed == []
    pool.give(first)
    assert resumed == ["first"]


def test_one_alone_gets_its_memory_even_beyond_the_limit() -> None:
    pool = BufferPool(1 << 20)
    assert len(take(pool, 8 << 20)) == 8 << 20
