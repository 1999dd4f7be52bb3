"""Writes zigzag varints and what is measured by them."""

from collections.abc import Sequence

from headwater.base.ports import Buffer


def put_varint(out: bytearray, number: int) -> None:
    """Fits int64, as Kafka's varlong. The same bytes as its varint where the number fits int32."""
    raw = (number << 1) ^ (number >> 63)
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)


def put_bytes(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)  # zigzag of -1
    else:
        put_varint(out, len(data))
        out += data


def put_content(
    out: bytearray,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[tuple[str, Buffer | None]],
) -> None:
    """Key, value and headers, as they stand in a record behind its deltas."""
    put_bytes(out, key)
    put_bytes(out, value)
    put_varint(out, len(headers))
    for header_key, header_value in headers:
        put_bytes(out, header_key.encode())
        put_bytes(out, header_value)
