"""The settings of a session, the sink's options, and how decisions are written down."""

import re
from pathlib import Path

import pytest

from headwater.base.errors import UserError
from headwater.client.settings.security import SECURITY
from headwater.spark.exactly_once import Decision, Digest, Entry, Producer, Progress
from headwater.spark.sessions import private_directory, settings_for, slot_settings
from headwater.spark.slots.slot_count import attempts_of, is_worn_out
from headwater.spark.writer.decision_topic import (
    decode_decision,
    decode_progress,
    encode_decision,
    encode_progress,
    progress_place,
    task_of,
    transactional_id,
)
from headwater.spark.writer.options import parse_sink_options


def test_a_local_session_has_few_partitions_and_stays_on_this_machine() -> None:
    settings = settings_for("local[*]", {}, cores=2)
    assert settings["spark.sql.shuffle.partitions"] == "2"
    assert settings["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in settings_for("spark://there:7077", {}, cores=2)


def test_spark_hides_every_secret_of_a_client_where_it_shows_settings_and_options() -> None:
    """Spark hides what a name or a value matches (Utils.redact),
    by one pattern for settings and by both for options.
    """
    settings = settings_for("local[2]", {}, 2)
    pattern = re.compile(settings["spark.redaction.regex"].removeprefix("(?i)"), re.IGNORECASE)
    options = re.compile(settings["spark.sql.redaction.options.regex"].removeprefix("(?i)"), re.IGNORECASE)
    secret = [name for name, row in SECURITY.items() if row.is_sensitive and "certificate" not in name]
    assert "sasl.jaas.config" in secret
    shown = [name for name in secret if not pattern.search(f"kafka.{name}") or not options.search(f"kafka.{name}")]
    assert shown == []
    for name in ("value.schema.registry.basic.auth.user.info", "options.password", "bearer.auth.token"):
        assert pattern.search(name), name
    assert options.search("schema.registry.url"), "it may have a login in it"
    for name in ("kafka.bootstrap.servers", "subscribe", "spark.app.name", "spark.executor.memory"):
        assert not pattern.search(name), name


SOCKETS = "spark.python.unix.domain.socket"


def test_on_one_machine_spark_talks_to_its_pythons_over_unix_sockets() -> None:
    settings = settings_for("local[2]", {}, 2, Path("/tmp/private"))
    assert (settings[f"{SOCKETS}.enabled"], settings[f"{SOCKETS}.dir"]) == ("true", "/tmp/private")
    refused = settings_for("local", {f"{SOCKETS}.enabled": False}, 2, Path("/tmp/private"))
    assert refused[f"{SOCKETS}.enabled"] == "false"


@pytest.mark.parametrize(
    ("master", "directory"), [("spark://there:7077", "/tmp/private"), ("local", "/tmp/" + "long" * 20), ("local", None)]
)
def test_where_a_unix_socket_would_not_do_there_is_none(master: str, directory: str | None) -> None:
    """The directory is on this machine alone; and the path of a socket has a limit."""
    settings = settings_for(master, {}, 2, None if directory is None else Path(directory))
    assert not any(name.startswith(SOCKETS) for name in settings)


def test_nobody_else_can_enter_the_directory_of_the_sockets() -> None:
    made = private_directory()
    try:
        assert made.stat().st_mode & 0o777 == 0o700
        assert list(made.iterdir()) == []
        assert private_directory() != made
    finally:
        made.rmdir()


def test_options_come_with_dots_or_underscores() -> None:
    settings = settings_for("local", {"spark.ui.enabled": True, "spark_executor_memory": "2g"}, cores=1)
    assert (settings["spark.ui.enabled"], settings["spark.executor.memory"]) == ("true", "2g")


def test_java_options_are_added_to_ours() -> None:
    settings = settings_for("local", {"spark.driver.extraJavaOptions": "-Da=b"}, cores=1)
    assert settings["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Da=b")


def test_what_would_break_exactly_once_cannot_be_set() -> None:
    assert settings_for("local", {"spark.speculation": False}, cores=1)["spark.speculation"] == "false"
    with pytest.raises(UserError, match=r"spark\.speculation cannot be true"):
        settings_for("local", {"spark.speculation": True}, cores=1)


SERVERS = {"kafka.bootstrap.servers": "h:1"}


def test_defaults_of_the_sink() -> None:
    options = parse_sink_options({**SERVERS, "topic": "t", "kafka.linger.ms": "5"}, ["value"], streaming=True)
    assert (options.delivery, options.topic, options.prefix) == ("exactly-once", "t", "headwater")
    assert options.client == {"linger.ms": "5"}
    assert parse_sink_options({**SERVERS, "topic": "t"}, ["value"], streaming=False).delivery == "at-least-once"


@pytest.mark.parametrize(
    ("options", "columns", "streaming", "said"),
    [
        ({}, ["value"], True, "No topic is given"),
        ({"topic": "t"}, ["key"], True, "no column 'value'"),
        ({"topic": "t"}, ["value", "id"], True, "has no place in a record"),
        ({"topic": "t", "delivery": "at-most-once"}, ["value"], True, "not one of: exactly-once, at-least-once"),
        ({"topic": "t", "delivery": "exactly-once"}, ["value"], False, "no checkpoint"),
        ({"topic": "t", "kafka.transactional.id": "x"}, ["value"], True, "transactionalIdPrefix"),
        ({"topic": "t", "topics": "x"}, ["value"], True, "is not known"),
        ({"topic": "t", "transactionalIdPrefix": " "}, ["value"], True, "it is empty"),
    ],
)
def test_wrong_options_of_the_sink(options: dict[str, str], columns: list[str], streaming: bool, said: str) -> None:
    with pytest.raises(UserError) as raised:
        parse_sink_options({**SERVERS, **options}, columns, streaming=streaming)
    assert said in str(raised.value)


@pytest.mark.parametrize("settled", [False, True])
def test_decisions_survive_being_written_down(settled: bool) -> None:
    entries = {n: Entry(Producer(f"p-q-{n}", 7 + n, n), Digest(n, 99 * n)) for n in (0, 1, 12)}
    decision = Decision(5, entries, 0, entries[0].producer, settled)
    assert decode_decision("p-q", encode_decision(decision), 3) == decision
    assert decode_decision("p-q", encode_decision(decision), 3).age_ms == 3


def test_progress_survives_being_written_down() -> None:
    assert decode_progress(encode_progress(Progress(5, 1 << 40, 32767))) == Progress(5, 1 << 40, 32767)


def test_transactional_ids_are_known_again_by_their_own_query_only() -> None:
    assert [task_of("p-q", transactional_id("p-q", task)) for task in (0, 7, 12)] == [0, 7, 12]
    for foreign in ("p-q", "p-q-", "p-q-x", "p-q-1-0", "p-qq-1", "p-1", "other-p-q-1"):
        assert task_of("p-q", foreign) is None


def test_every_task_has_a_place_of_its_own() -> None:
    places = {progress_place("p-q", task) for task in range(100)}
    assert len(places) == 100
    assert {partition.partition for _, partition in places} == set(range(32))


def test_a_cluster_of_slots_survives_more_lost_executors_than_spark_allows_a_task() -> None:
    master = "spark://host:7077"
    attempts = attempts_of(master, slot_settings(master)["spark.task.maxFailures"])
    assert not is_worn_out(17, attempts)
    assert is_worn_out(2, attempts_of(master, None))
    assert "spark.task.maxFailures" not in slot_settings("local[4]"), "there its master says it"


DRIVER, EXECUTORS = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"


def test_jvms_of_slots_compile_quickly_or_not_at_all_unless_dataframes_go_through_them() -> None:
    for master in ("spark://host:7077", "local[3]"):
        settings, with_frames = slot_settings(master), slot_settings(master, frames=True)
        assert settings[DRIVER] == settings[EXECUTORS] == "-XX:TieredStopAtLevel=1"
        assert settings["spark.sql.codegen.wholeStage"] == "false"
        assert with_frames.keys() <= {"spark.task.maxFailures"}


def test_an_archive_of_classes_is_for_the_driver_and_on_a_cluster_for_executors() -> None:
    """In the options that a user's own, also of spark-defaults.conf, follow."""
    archive = Path("/data/classes.jsa")
    on_cluster = settings_for("spark://host:7077", slot_settings("spark://host:7077"), 2, archive=archive)
    for name in (DRIVER, EXECUTORS):
        assert on_cluster[name].split() == [
            "-XX:SharedArchiveFile=/data/classes.jsa",
            "-Xlog:cds=off",
            "-XX:TieredStopAtLevel=1",
        ]
    assert EXECUTORS not in settings_for("local[2]", {}, 2, archive=archive)
    assert "spark.executor.extraJavaOptions" not in on_cluster, "it would replace the user's"


def test_an_archive_whose_path_spark_would_split_is_not_used() -> None:
    assert DRIVER not in settings_for("local[2]", {}, 2, archive=Path("/my data/classes.jsa"))
