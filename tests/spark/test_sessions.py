"""A session as `headwater.spark.session` makes it, seen from a task."""

from pathlib import Path

from pyspark.sql import SparkSession


def test_tasks_have_pyspark_compiled_and_not_from_a_zip(spark: SparkSession) -> None:
    """Each Python that Spark starts compiled it anew, for most of a second; a source's has ten for its start."""

    def where(_: int) -> str:
        import pyspark

        return str(pyspark.__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(where).collect()
    assert Path(found).is_file(), "not a path inside of a zip"
