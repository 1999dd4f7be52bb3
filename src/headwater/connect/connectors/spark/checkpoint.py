"""Where a query goes on, changed in its checkpoint.

Spark keeps a file for each batch in `offsets/`, with the offsets at which the batch ends, and one in `commits/` when it
is done. An offset is set as a batch that is done and ends there: what runs next begins behind it, and its number is one
that no batch had before. So the marks of batches in the target (`headwater_progress`, `_manifests`) hold for what is
written next, and Spark refuses a query that is still at the batch before, because its own next number is taken.

A batch that was begun and not ended (a crash between `offsets/N` and `commits/N`) may be in the target or not.
Partitions that a call does not name go on behind it if the target has its mark, and where it began if not: none of
their records is lost, and none is written twice where batches are marked.

Who changes a checkpoint may be killed, too. The commit of the new batch is put before its offsets, which Spark never
does: one without offsets is a call that did not come to its end, and goes (`recover`). A reset says so in a file first,
and is carried through by `recover` if it was not. `recover` comes before each query and each change.

A query that begins at the ends of its partitions has these as its batch 0 (`begin_at`), before it starts: Spark asks
the source for them again when the first batch is tried again, and partitions that are not in a checkpoint are read from
their earliest record.

A reset removes the checkpoint: what runs next is another query, by whose id its marks are its own.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from headwater.base.ids import TopicPartition
from headwater.connect.errors import ConnectError

OffsetTree = Mapping[str, Mapping[str, int]]  # {"topic": {"0": 23}}, as the source writes it
_VERSION: Final = "v1"
_NO_METADATA: Final = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
_QUERY: Final = "metadata"
_COMMITTED: Final = '{"nextBatchWatermarkMs":0}'
_RESET: Final = "_reset"


class Files(Protocol):
    def names_in(self, path: str) -> list[str]: ...

    def read_text(self, path: str) -> str: ...

    def write_text(self, path: str, text: str, aside: str) -> None: ...

    def delete(self, path: str) -> None: ...


def set_offsets(
    files: Files,
    checkpoint: str,
    offsets: Mapping[TopicPartition, int | None],
    is_written: Callable[[str, int], bool],
) -> None:
    """None: that partition is as one that is new. `is_written(query id, batch)`: whether the target has that batch's
    mark; asked of one that was begun and not ended.
    """
    checkpoint = checkpoint.rstrip("/")
    recover(files, checkpoint)
    batches = _batches(files, f"{checkpoint}/offsets")
    metadata = _NO_METADATA
    tree: OffsetTree = {}
    if batches:
        metadata, tree = parsed(files.read_text(f"{checkpoint}/offsets/{batches[-1]}"), checkpoint)
        if batches[-1] not in _batches(files, f"{checkpoint}/commits"):
            query = _query_of(files, checkpoint)
            if query is None or not is_written(query, batches[-1]):
                before = f"{checkpoint}/offsets/{batches[-2]}" if len(batches) > 1 else None
                tree = {} if before is None else parsed(files.read_text(before), checkpoint)[1]
    wanted = changed(tree, offsets)
    if not wanted:
        reset_offsets(files, checkpoint)
        return
    if _QUERY not in files.names_in(checkpoint):  # the connector never ran: the query has no name yet
        _put(files, checkpoint, _QUERY, json.dumps({"id": str(uuid.uuid4())}))
    number = str(batches[-1] + 1 if batches else 0)
    _put(files, f"{checkpoint}/commits", number, f"{_VERSION}\n{_COMMITTED}")
    _put(files, f"{checkpoint}/offsets", number, f"{_VERSION}\n{metadata}\n{json.dumps(wanted)}")


def begin_at(files: Files, checkpoint: str, offsets: Callable[[], Mapping[TopicPartition, int]]) -> None:
    """Of a query without a batch: it begins there, however often its first one is tried."""
    checkpoint = checkpoint.rstrip("/")
    if _batches(files, f"{checkpoint}/offsets"):
        return
    found = offsets()
    if found:
        set_offsets(files, checkpoint, found, lambda _query, _batch: False)


def reset_offsets(files: Files, checkpoint: str) -> None:
    """The query begins anew, where its `startingOffsets` say."""
    checkpoint = checkpoint.rstrip("/")
    there = files.names_in(checkpoint)
    if there and _RESET not in there:
        _put(files, checkpoint, _RESET, "This checkpoint is being removed.\n")
    for name in there:
        if _RESET not in name:  # it goes last
            files.delete(f"{checkpoint}/{name}")
    files.delete(checkpoint)


def recover(files: Files, checkpoint: str) -> None:
    """What a change left that did not come to its end."""
    checkpoint = checkpoint.rstrip("/")
    if _RESET in files.names_in(checkpoint):
        reset_offsets(files, checkpoint)
        return
    last = max(_batches(files, f"{checkpoint}/offsets"), default=-1)
    for number in _batches(files, f"{checkpoint}/commits"):
        if number > last:
            files.delete(f"{checkpoint}/commits/{number}")


def _query_of(files: Files, checkpoint: str) -> str | None:
    """The query's id, by which its marks are known."""
    if _QUERY not in files.names_in(checkpoint):
        return None
    return str(json.loads(files.read_text(f"{checkpoint}/{_QUERY}"))["id"])


def changed(tree: OffsetTree, offsets: Mapping[TopicPartition, int | None]) -> dict[str, dict[str, int]]:
    made = {topic: dict(partitions) for topic, partitions in tree.items()}
    for place, offset in offsets.items():
        if offset is None:
            made.get(place.topic, {}).pop(str(place.partition), None)
        else:
            made.setdefault(place.topic, {})[str(place.partition)] = offset
    return {topic: made[topic] for topic in sorted(made) if made[topic]}


def _put(files: Files, directory: str, name: str, text: str) -> None:
    files.write_text(f"{directory}/{name}", text, f"{directory}/.{name}.set.tmp")


def _batches(files: Files, directory: str) -> list[int]:
    return sorted(int(name) for name in files.names_in(directory) if name.isascii() and name.isdigit())


def parsed(text: str, checkpoint: str) -> tuple[str, OffsetTree]:
    lines = text.split("\n")
    if lines[0] != _VERSION or len(lines) != 3 or not lines[2].startswith("{"):
        raise ConnectError(
            f"The checkpoint in {checkpoint} is not that of a SparkSink, or of a Spark that is not known: remove it, and the connector "
            "begins anew, or choose another checkpoint.location"
        )
    return lines[1], json.loads(lines[2])
