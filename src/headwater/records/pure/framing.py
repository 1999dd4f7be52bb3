"""Which schemas the records of a batch name: the twin of `../native/framing.c`."""

import array
from typing import Final

from headwater.base.ports import Buffer
from headwater.records.batch import BatchHeader
from headwater.records.columns import NO_FRAME, OTHER_FRAME, SCHEMA_FRAMES_MAX
from headwater.records.pure.reading import read_records

_ID_BYTES: Final = 5
_GUID_BYTES: Final = 17


def schema_frames(payload: Buffer, header: BatchHeader, of_key: object, /) -> tuple[list[bytes], bytes]:
    name = "__key_schema_id" if of_key else "__value_schema_id"
    frames: dict[bytes, int] = {}
    places = array.array("i")
    for record in read_records(payload, header):
        data = record.key if of_key else record.value
        if data is None:
            places.append(NO_FRAME)
            continue
        data = next((value for key, value in record.headers if key == name and value is not None), data)
        frame = data[: _GUID_BYTES if data[:1] == b"\x01" else _ID_BYTES]
        place = frames.get(frame, OTHER_FRAME)
        if place == OTHER_FRAME and len(frames) < SCHEMA_FRAMES_MAX:
            place = frames[frame] = len(frames)
        places.append(place)
    return list(frames), places.tobytes()
