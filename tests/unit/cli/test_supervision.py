"""What becomes of a broker that ended."""

import pytest

from headwater.cli.supervision import (
    PAUSE_MS_MAX,
    STABLE_MS,
    End,
    ReadyLine,
    StartAgain,
    Supervision,
    exit_text,
    parse_ready_line,
    parse_registry_line,
    parse_sql_line,
)


def test_a_broker_that_never_was_ready_is_given_up() -> None:
    assert Supervision().on_exit(1, 50) == End(1)


def test_a_broker_that_died_is_started_again_with_growing_pauses() -> None:
    supervision = Supervision()
    supervision.on_ready()
    pauses = [supervision.on_exit(-9, 100) for _ in range(10)]
    expected = [0, 500, 1000, 2000, 4000, 8000, 16000, PAUSE_MS_MAX, PAUSE_MS_MAX, PAUSE_MS_MAX]
    assert pauses == [StartAgain(pause_ms) for pause_ms in expected]
    assert supervision.restarts == 10


def test_a_stable_run_makes_it_a_first_time_again() -> None:
    supervision = Supervision()
    supervision.on_ready()
    supervision.on_exit(-9, 100)
    supervision.on_exit(-9, 100)
    assert supervision.on_exit(-9, STABLE_MS) == StartAgain(0)
    assert supervision.on_exit(-9, 100) == StartAgain(500)


@pytest.mark.parametrize(("exit_code", "ours"), [(0, 0), (1, 1), (-15, 1)])
def test_a_broker_that_was_told_to_stop_is_not_started_again(exit_code: int, ours: int) -> None:
    supervision = Supervision()
    supervision.on_ready()
    supervision.on_stop_request()
    assert supervision.on_exit(exit_code, 100) == End(ours)


def test_a_clean_exit_that_nobody_asked_for_is_unexpected_too() -> None:
    supervision = Supervision()
    supervision.on_ready()
    assert supervision.on_exit(0, 100) == StartAgain(0)


@pytest.mark.parametrize(
    ("line", "ready"),
    [
        ("ready broker=0 listeners=PLAINTEXT://localhost:9092", ReadyLine(0, "localhost", 9092, -1)),
        ("ready broker=3 listeners=A://[::1]:1,B://h:2", ReadyLine(3, "::1", 1, -1)),
        (
            "ready broker=0 listeners=PLAINTEXT://localhost:1 metrics=http://127.0.0.1:77/metrics",
            ReadyLine(0, "localhost", 1, 77),
        ),
        ("", None),
        ("ready", None),
        ("already broker=0 listeners=PLAINTEXT://localhost:9092", None),
        ("ready broker=x listeners=PLAINTEXT://localhost:9092", None),
        ("ready broker=0 listeners=localhost", None),
    ],
)
def test_the_ready_line_is_read(line: str, ready: ReadyLine | None) -> None:
    assert parse_ready_line(line) == ready


def test_an_exit_is_told_in_words() -> None:
    assert exit_text(3) == "exit code 3"
    assert exit_text(-9) == "signal SIGKILL"


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("ready registry=http://127.0.0.1:8081", ("127.0.0.1", 8081)),
        ("ready registry=http://[::1]:1", ("::1", 1)),
        ("ready registry=http://x:y", None),
        ("ready broker=0 listeners=PLAINTEXT://localhost:9092", None),
        ("", None),
    ],
)
def test_the_line_of_a_registry_is_read(line: str, address: tuple[str, int] | None) -> None:
    assert parse_registry_line(line) == address


def test_the_line_of_a_sql_server_is_read() -> None:
    assert parse_sql_line("ready sql=http://127.0.0.1:8088") == ("127.0.0.1", 8088)
    assert parse_sql_line("ready registry=http://127.0.0.1:8081") is None
    assert parse_registry_line("ready sql=http://127.0.0.1:8088") is None
