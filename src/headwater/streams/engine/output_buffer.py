"""What a task has made and nobody has collected yet: records of its nodes, and columns of its lane, in their order."""

from headwater.streams.engine.columns import OutputColumns, PackedColumns
from headwater.streams.model.record import OutputRecord

Pieces = list[OutputColumns | OutputRecord]


class OutputBuffer:
    """Nodes append to `records` and `changelog`. A lane adds to columns by topic. Where the two take turns, what went
    before is put aside, so that the order of results stays.
    """

    def __init__(self) -> None:
        self.records: list[OutputRecord] = []
        self.changelog: list[OutputRecord] = []
        self._columns: dict[str, OutputColumns] = {}
        self._changelog_columns: dict[str, OutputColumns] = {}
        self._pieces: Pieces = []
        self._changelog_pieces: Pieces = []

    def begin_columns(self) -> None:
        """What nodes have made so far comes before columns that are added from now on."""
        if self.records or self.changelog:
            self._put_aside()

    def begin_records(self) -> None:
        """What a lane has made so far comes before records that are added from now on."""
        if self._columns or self._changelog_columns:
            self._put_aside()

    def columns_of(self, topic: str, partition: int | None, placed: bool) -> OutputColumns:
        """What a lane adds results for a topic to; with a partition it is a changelog. `placed`: each record names its
        partition.
        """
        found = self._columns_now(topic, partition)
        if found is None or isinstance(found, PackedColumns):
            found = self._begin(OutputColumns(topic, partition))
            found.partitions = [] if placed else None
        return found

    def packed_of(self, topic: str, partition: int | None) -> PackedColumns:
        """The same for compiled code."""
        found = self._columns_now(topic, partition)
        if not isinstance(found, PackedColumns):
            found = PackedColumns(topic, partition)
            self._begin(found)
        return found

    def has_packed(self, topic: str, partition: int | None) -> bool:
        """Whether what was added last for a topic is of compiled code."""
        return isinstance(self._columns_now(topic, partition), PackedColumns)

    def take(self) -> tuple[list[OutputRecord], list[OutputRecord], Pieces, Pieces]:
        """All of it: records and changelog records, or both in pieces, if there are columns among them."""
        if self._pieces or self._changelog_pieces or self._columns or self._changelog_columns:
            self._put_aside()
        taken = self.records[:], self.changelog[:], self._pieces, self._changelog_pieces
        self.records.clear()
        self.changelog.clear()
        self._pieces, self._changelog_pieces = [], []
        return taken

    def _columns_now(self, topic: str, partition: int | None) -> OutputColumns | None:
        return (self._columns if partition is None else self._changelog_columns).get(topic)

    def _begin(self, columns: OutputColumns) -> OutputColumns:
        """Those of the other kind come before it."""
        if self._columns_now(columns.topic, columns.partition) is not None:
            self._put_aside()
        (self._columns if columns.partition is None else self._changelog_columns)[columns.topic] = columns
        return columns

    def _put_aside(self) -> None:
        self._pieces += [*self.records, *self._columns.values()]
        self._changelog_pieces += [*self.changelog, *self._changelog_columns.values()]
        self.records.clear()
        self.changelog.clear()
        self._columns, self._changelog_columns = {}, {}
