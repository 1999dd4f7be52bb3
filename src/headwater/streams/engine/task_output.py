"""What a task wants written."""

from dataclasses import dataclass, field

from headwater.streams.engine.columns import OutputColumns
from headwater.streams.model.record import OutputRecord


@dataclass(slots=True)
class TaskOutput:
    """Since the last `collect`. A changelog record has the task's partition."""

    records: list[OutputRecord]
    changelog: list[OutputRecord]
    positions: dict[tuple[str, int], int]  # of input partitions: the offset to go on from
    dropped: dict[str, int] = field(default_factory=dict)
    columns: list[OutputColumns | OutputRecord] = field(default_factory=list)
    """Results of a lane, by topic, and what nodes have made in between; then `records` and `changelog` are empty."""
    changelog_columns: list[OutputColumns | OutputRecord] = field(default_factory=list)
