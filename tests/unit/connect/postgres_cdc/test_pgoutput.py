"""Messages of the replication protocol, byte by byte."""

import struct

import pytest

from headwater.connect.connectors.postgres_cdc.pgoutput import (
    EPOCH_2000_US,
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Keepalive,
    LogicalMessage,
    Origin,
    Other,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    XLogData,
    decode,
    decode_frame,
    encode_status,
    lsn_of,
    lsn_text,
)
from headwater.connect.errors import DataError

ROW = b"\0\3" + b"t\0\0\0\2hi" + b"n" + b"u"
CELLS = ("hi", None, UNCHANGED)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"B" + struct.pack(">QqI", 7, 5, 9), Begin(7, EPOCH_2000_US + 5, 9)),
        (b"C\0" + struct.pack(">QQq", 7, 8, 5), Commit(7, 8, EPOCH_2000_US + 5)),
        (
            b"R" + struct.pack(">I", 3) + b"public\0t\0f" + struct.pack(">H", 1) + b"\1id\0" + struct.pack(">Ii", 23, -1),
            Relation(3, "public", "t", "f", (RelationColumn("id", 23, -1, True),)),
        ),
        (b"I" + struct.pack(">I", 3) + b"N" + ROW, Insert(3, CELLS)),
        (b"U" + struct.pack(">I", 3) + b"N" + ROW, Update(3, None, False, CELLS)),
        (b"U" + struct.pack(">I", 3) + b"K" + ROW + b"N" + ROW, Update(3, CELLS, False, CELLS)),
        (b"U" + struct.pack(">I", 3) + b"O" + ROW + b"N" + ROW, Update(3, CELLS, True, CELLS)),
        (b"D" + struct.pack(">I", 3) + b"K" + ROW, Delete(3, CELLS, False)),
        (b"T" + struct.pack(">IBII", 2, 0, 3, 4), Truncate((3, 4))),
        (b"M" + struct.pack(">BQ", 1, 6) + b"p\0" + struct.pack(">I", 2) + b"\0\xff", LogicalMessage(True, 6, "p", b"\0\xff")),
        (b"O" + struct.pack(">Q", 6) + b"there\0", Origin(6, "there")),
        (b"Y" + struct.pack(">I", 6) + b"a\0b\0", Other("Y")),
    ],
)  # fmt: skip
def test_messages(data: bytes, message: object) -> None:
    assert decode(data) == message


@pytest.mark.parametrize("size", range(1, 4))
def test_a_message_that_is_cut_off_is_refused(size: int) -> None:
    whole = b"I" + struct.pack(">I", 3) + b"N" + ROW
    with pytest.raises(DataError):
        decode(whole[: -size * 2])


def test_frames() -> None:
    assert decode_frame(b"w" + struct.pack(">QQq", 1, 2, 3) + b"rest") == XLogData(1, 2, b"rest")
    assert decode_frame(b"k" + struct.pack(">QqB", 1, 2, 1)) == Keepalive(1, True)
    with pytest.raises(DataError, match="not known"):
        decode_frame(b"z")
    assert encode_status(9, 4, EPOCH_2000_US + 1) == b"r" + struct.pack(">QQQqB", 9, 4, 4, 1, 0)


def test_positions_of_the_log_as_texts() -> None:
    assert lsn_of("16/B374D848") == 0x16B374D848
    assert lsn_text(0x16B374D848) == "16/B374D848"
    for wrong in ("", "12", "x/y"):
        with pytest.raises(DataError, match="Not an LSN"):
            lsn_of(wrong)
