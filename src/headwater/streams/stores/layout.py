"""How the rows of a store lie on disk, noted beside them: a new version of an application may have them otherwise.

Rows of windows, sessions and versions lie in segments, whose length follows from the retention: with another size,
grace or retention they would be looked for elsewhere, and seem not to be there. A store that is asked by time has an
index, which has nothing of the rows of before; and values may get or lose their timestamps. The changelog has none of
this in it: such a store is restored. Of state that has no such note nothing is known; it is taken as it is.
"""

from typing import Final

from headwater.streams.stores.segments import segment_interval_ms
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.state import TaskState
from headwater.streams.stores.versioned import version_interval_ms

_NOTE: Final = b"layout\x00"


def layout_of(spec: StoreSpec) -> bytes:
    match spec.kind:
        case StoreKind.KEY_VALUE:
            interval = 0
        case StoreKind.VERSIONED:
            interval = spec.segment_interval_ms or version_interval_ms(spec.retention_ms)
        case _:
            interval = spec.segment_interval_ms or segment_interval_ms(spec.retention_ms)
    return f"{spec.kind} {interval} {spec.timestamped:d}{spec.time_ordered:d}{spec.retain_duplicates:d}".encode()


def layout_fits(spec: StoreSpec, state: TaskState) -> bool:
    noted = state.notes.get(_NOTE + spec.name.encode())
    return noted is None or noted == layout_of(spec)


def note_layout(spec: StoreSpec, state: TaskState) -> None:
    """Saved with the next commit."""
    note, layout = _NOTE + spec.name.encode(), layout_of(spec)
    if state.notes.get(note) != layout:
        state.notes.put(note, layout)
