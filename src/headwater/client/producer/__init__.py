"""Writing records: `producer` (synchronous) and `aio` (asyncio) are the faces, `core` is what both drive.

The way of a record: a face serialises it and chooses its partition; `accumulator` puts it into that partition's open
batch; `sender` takes closed batches, several partitions to a request, and decides by the answers what becomes of them,
with `sequences` for the order of an idempotent producer; `batch` tells the records' `Delivery` objects.
"""
