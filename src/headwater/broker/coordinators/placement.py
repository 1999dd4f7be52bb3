"""Which partition of an internal topic a key belongs to: Java's hash of the string, as every Kafka broker computes
it.
"""

from functools import lru_cache


def java_string_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, in 32-bit two's complement."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - 0x1_0000_0000 if value & 0x8000_0000 else value


@lru_cache(maxsize=4096)
def partition_for(key: str, partition_count: int) -> int:
    hashed = java_string_hash(key)
    return 0 if hashed == -0x8000_0000 else abs(hashed) % partition_count
