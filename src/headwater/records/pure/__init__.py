"""The codec of records in plain Python: the twin of the compiled one (`../native`), function by function.

It serves where there is no compiler at install, and it is the oracle in the property tests: the same input gives the
same outcome in both, an error included. `headwater.records.codec` chooses between the two and says what each
function does. No state.
"""

from headwater.records.pure.appending import BatchAppender
from headwater.records.pure.encoding import encode_columns
from headwater.records.pure.framing import schema_frames
from headwater.records.pure.gathering import ColumnBuilder
from headwater.records.pure.partitioning import murmur2, partition_keys
from headwater.records.pure.reading import build_records, read_records
from headwater.records.pure.scanning import BatchScanner

__all__ = [
    "BatchAppender",
    "BatchScanner",
    "ColumnBuilder",
    "build_records",
    "encode_columns",
    "murmur2",
    "partition_keys",
    "read_records",
    "schema_frames",
]
