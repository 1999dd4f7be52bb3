"""The rows of a task as records: which column is which part of them."""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow

    from headwater.client.producer.arrow import TableDelivery
    from headwater.client.producer.producer import Producer


def send_rows(producer: "Producer", batch: "pyarrow.RecordBatch", topic: str | None) -> "list[TableDelivery]":
    """The option's topic, or that of each row; the other columns as they are named."""
    names = batch.schema.names
    columns: dict[str, Any] = {name: name for name in ("key", "headers", "partition") if name in names}
    if topic is not None or "topic" not in names:
        assert topic is not None
        return [producer.send_arrow(batch, topic, value="value", **columns)]
    import pyarrow.compute as compute

    if batch.column("topic").null_count:
        raise UserError(
            "A row has no topic", "its column topic is null", "Give the option topic, or a value to each row"
        )
    sent = []
    for each in compute.unique(batch.column("topic")).to_pylist():
        part = batch.filter(compute.equal(batch.column("topic"), each))
        sent.append(producer.send_arrow(part, each, value="value", **columns))
    return sent
