"""From records to results. Each step takes a frame and gives a frame, so it is tested on frames that do not stream.

page_views    value -> columns; what is no JSON, or has no time, page and visitor, is left out
enriched      the section and the title of each page; a page that nobody knows is in section "other"
per_section   views, visitors and load time of each section in windows of ten seconds
"""

from typing import TYPE_CHECKING, Final

from headwater.demo.activity import SITE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW: Final = "time_ms bigint, visitor string, page string, referrer string, device string, load_ms int"
WINDOW: Final = "10 seconds"
LATE: Final = "20 seconds"  # how long a window waits for views that come late


def page_views(records: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    read = records.select(
        f.from_json(f.col("value").cast("string"), VIEW).alias("view"), "topic", "partition", "offset"
    )
    views = read.select("topic", "partition", "offset", "view.*")
    return views.where("time_ms IS NOT NULL AND page IS NOT NULL AND visitor IS NOT NULL").select(
        "topic",
        "partition",
        "offset",
        f.timestamp_millis("time_ms").alias("time"),
        "visitor",
        "page",
        "referrer",
        "device",
        "load_ms",
    )


def pages(spark: "SparkSession") -> "DataFrame":
    """The table to enrich with; in a company it would come from the editors' database."""
    return spark.createDataFrame(list(SITE), "page string, section string, title string")


def enriched(views: "DataFrame", known_pages: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    found = views.join(f.broadcast(known_pages), "page", "left")
    return found.withColumn("section", f.coalesce("section", f.lit("other")))


def per_section(views: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    return (
        views.withWatermark("time", LATE)
        .groupBy(f.window("time", WINDOW), "section")
        .agg(
            f.count("*").alias("views"),
            f.approx_count_distinct("visitor").alias("visitors"),
            f.percentile_approx("load_ms", 0.95).alias("load_p95_ms"),
        )
        .select(
            f.col("window.start").alias("window_start"),
            "section",
            "views",
            "visitors",
            "load_p95_ms",
        )
    )


def as_records(numbers: "DataFrame") -> "DataFrame":
    """For a topic: keyed by window and section."""
    from pyspark.sql import functions as f

    key = f.concat_ws("/", f.date_format("window_start", "yyyy-MM-dd'T'HH:mm:ss'Z'"), "section")
    return numbers.select(
        key.cast("binary").alias("key"), f.to_json(f.struct(*numbers.columns)).cast("binary").alias("value")
    )
