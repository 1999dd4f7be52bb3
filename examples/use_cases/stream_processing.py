"""Stream processing: a chain of topics. Raw orders come in; clean ones go to the next topic, with what they are worth.

Each step reads a topic and writes a topic, so steps are started, stopped and replaced one by one, and anybody can look
at what lies between. The writer is exactly once: kill it at any moment, start it again, and each order is there once.

    python stream_processing.py          sends a few orders, processes what is there, and shows the result
"""

import json
import sys

from common import BOOTSTRAP, ensure_topic
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import headwater.spark
from headwater.client import Producer

RAW, CLEAN = "orders", "orders-clean"
PRICES = [("boots", 49.0), ("raincoat", 89.0), ("umbrella", 19.0)]
ORDER = "customer string, item string, count int"


def cleaned(records: DataFrame) -> DataFrame:
    """What is no order is left out; items are written in one way."""
    read = records.select(f.from_json(f.col("value").cast("string"), ORDER).alias("order")).select("order.*")
    return read.where("customer IS NOT NULL AND count > 0").withColumn("item", f.lower(f.trim("item")))


def valued(orders: DataFrame, prices: DataFrame) -> DataFrame:
    return orders.join(f.broadcast(prices), "item").withColumn("total", f.col("count") * f.col("price"))


def as_records(orders: DataFrame) -> DataFrame:
    return orders.select(
        f.col("customer").cast("binary").alias("key"),
        f.to_json(f.struct(*orders.columns)).cast("binary").alias("value"),
    )


def main(checkpoint: str) -> None:
    for topic in (RAW, CLEAN):
        ensure_topic(topic)
    with Producer(bootstrap_servers=BOOTSTRAP) as producer:
        for customer, item, count in (
            ("anna", " Boots", 2),
            ("bob", "umbrella", 1),
            ("anna", "RAINCOAT", 1),
            ("", "x", 0),
        ):
            producer.send(RAW, json.dumps({"customer": customer, "item": item, "count": count}), key=customer)
        producer.send(RAW, b"not an order")
    spark = headwater.spark.session("orders")
    raw = (
        spark.readStream.format("headwater")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("kafka.group.id", "clean-orders")
        .option("subscribe", RAW)
        .option("startingOffsets", "earliest")
        .load()
    )
    prices = spark.createDataFrame(PRICES, "item string, price double")
    query = (
        as_records(valued(cleaned(raw), prices))
        .writeStream.format("headwater")
        .option("kafka.bootstrap.servers", BOOTSTRAP)
        .option("topic", CLEAN)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)  # take this away, and it runs on
        .start()
    )
    query.awaitTermination()
    result = (
        spark.read.format("headwater").option("kafka.bootstrap.servers", BOOTSTRAP).option("subscribe", CLEAN).load()
    )
    for row in result.orderBy("partition", "offset").collect():
        print(bytes(row.value).decode())
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "orders-checkpoint")
