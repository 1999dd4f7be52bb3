"""`python -m bench.protobuf_columns`: Protobuf into columns and back, beside the `protobuf` package, in one run.
Seconds are of this process's CPU.
"""

from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from bench.avro_columns import ROWS, rate
from headwater.schemas import SchemaType, parse
from headwater.schemas.columns.protobuf import (
    COMPILED,
    DecodeMessages,
    EncodeMessages,
    protobuf_columns,
    protobuf_rows,
)
from headwater.schemas.columns.protobuf_shapes import shape_of
from headwater.schemas.protobuf import ProtobufSchema

SCHEMA = """syntax = "proto3";
message Visit {
  int64 id = 1;
  string user = 2;
  optional string page = 3;
  double seconds = 4;
  bool returning = 5;
  int64 at = 6;
}
"""


def sample(rows: int = ROWS) -> tuple[Any, list[Any], list[bytes], DecodeMessages, EncodeMessages]:
    """Google's class, its messages, the same as rows, and the codec of columns."""
    schema = parse(SchemaType.PROTOBUF, SCHEMA)
    assert isinstance(schema, ProtobufSchema)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(schema.descriptor("visit.proto")))
    visit = message_factory.GetMessageClass(pool.FindMessageTypeByName("Visit"))
    messages = [
        visit(id=at, user=f"user-{at % 1000}", page="/p" if at % 3 else None, seconds=at / 7, at=1_700_000_000_000 + at)
        for at in range(rows)
    ]
    shape = shape_of(schema.messages["Visit"])
    made = [each.SerializeToString() for each in messages]
    return visit, messages, made, protobuf_columns(shape), protobuf_rows(shape)


def main() -> None:
    visit, messages, rows, decode, encode = sample()
    column = pa.array(rows, pa.binary())
    decoded = decode(column, 0, b"")
    assert encode(decoded, b"").to_pylist() == rows
    print(f"million records a second, of {ROWS:,}; compiled: {COMPILED}")
    print(f"  to columns                   {rate(lambda: decode(column, 0, b'')):6.2f}")
    print(f"  to objects (protobuf)        {rate(lambda: [visit.FromString(row) for row in rows]):6.2f}")
    print(f"  from columns                 {rate(lambda: encode(decoded, b'')):6.2f}")
    print(f"  from objects (protobuf)      {rate(lambda: [each.SerializeToString() for each in messages]):6.2f}")


if __name__ == "__main__":
    main()
