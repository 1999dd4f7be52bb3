"""Which archive of Spark's classes a session takes, and which classes are in it."""

from pathlib import Path

from headwater.spark.class_archive import archive_path, find_archive
from headwater.spark.class_training import settings
from headwater.spark.make_class_archive import merged


def _spark(path: Path) -> dict[str, str]:
    (path / "jars").mkdir(parents=True)
    return {"SPARK_HOME": str(path)}


def test_a_session_takes_the_archive_of_its_own_jars_and_none_of_others(tmp_path: Path) -> None:
    data, mine, other = tmp_path / "data", _spark(tmp_path / "mine"), _spark(tmp_path / "other")
    assert find_archive(data, mine) is None
    made = archive_path(data, tmp_path / "mine/jars")
    made.parent.mkdir(parents=True)
    made.touch()
    assert find_archive(data, mine) == made
    assert find_archive(data, other) is None


def test_a_directory_of_links_to_the_jars_has_the_same_archive(tmp_path: Path) -> None:
    """As sessions on one machine have it: `spark_home`."""
    _spark(tmp_path / "mine")
    (tmp_path / "lean").mkdir()
    (tmp_path / "lean/jars").symlink_to(tmp_path / "mine/jars")
    assert archive_path(tmp_path, tmp_path / "lean/jars") == archive_path(tmp_path, tmp_path / "mine/jars")


def test_classes_of_driver_and_executors_are_in_it_once_in_the_order_of_loading() -> None:
    driver = "# a comment\njava/lang/Object\norg/apache/spark/SparkContext\n"
    executor = "java/lang/Object\n\norg/apache/spark/executor/Executor\n"
    assert merged([driver, executor]) == [
        "java/lang/Object",
        "org/apache/spark/SparkContext",
        "org/apache/spark/executor/Executor",
    ]


def test_driver_and_executors_do_not_write_into_one_list(tmp_path: Path) -> None:
    found = settings(tmp_path)
    driver, executor = found["spark.driver.extraJavaOptions"], found["spark.executor.extraJavaOptions"]
    assert f"{tmp_path}/driver.lst" in driver
    assert f"{tmp_path}/executor-{{{{EXECUTOR_ID}}}}.lst" in executor, "Spark puts the number there"
