"""What tasks have made since the last commit, in order: records, and columns of many. Owned by one slot."""

from collections.abc import Iterable

from headwater.streams.engine.columns import OutputColumns
from headwater.streams.engine.record import OutputRecord

Piece = OutputRecord | OutputColumns


class PendingOutputs:
    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.rows = 0
        self.data_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def add(self, records: Iterable[OutputRecord], columns: Iterable[OutputColumns]) -> None:
        for record in records:
            self.pieces.append(record)
            self.rows += 1
            self.data_bytes += len(record.key or b"") + len(record.value or b"")
        for each in columns:
            if len(each):
                self.pieces.append(each)
                self.rows += len(each)
                self.data_bytes += each.data_bytes

    def as_records(self) -> list[OutputRecord]:
        """All of it as records, from now on: each can be told from the others. The list may be changed."""
        made: list[OutputRecord] = []
        for piece in self.pieces:
            if isinstance(piece, OutputColumns):
                made += piece.records()
            else:
                made.append(piece)
        self.pieces = made  # type: ignore[assignment]
        return made

    def clear(self) -> None:
        self.pieces, self.rows, self.data_bytes = [], 0, 0
