"""What tasks have made since the last commit, in order: records, and columns of many. Owned by one slot."""

import itertools
from collections.abc import Iterable

from headwater.streams.engine.columns import OutputColumns
from headwater.streams.model.record import OutputRecord

Piece = OutputRecord | OutputColumns


class PendingOutputs:
    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.rows = 0
        self.data_bytes = 0

    def __bool__(self) -> bool:
        return bool(self.pieces)

    def add(self, records: Iterable[OutputRecord], columns: Iterable[Piece]) -> None:
        for piece in itertools.chain(records, columns):
            if isinstance(piece, OutputColumns):
                if not len(piece):
                    continue
                self.rows += len(piece)
                self.data_bytes += piece.data_bytes
            else:
                self.rows += 1
                self.data_bytes += len(piece.key or b"") + len(piece.value or b"")
            self.pieces.append(piece)

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
