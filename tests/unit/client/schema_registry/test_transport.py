"""When a request to a registry is repeated: never when it may have been carried out.
The connections are made up here.
"""

from typing import Any

import pytest

from headwater.client.schema_registry import SchemaRegistryError
from headwater.client.schema_registry.transport import HttpTransport


class Connection:
    """Fails at one step, or answers."""

    def __init__(self, steps: list[tuple[str, Exception | None]], log: list[str]) -> None:
        self._steps = steps
        self._log = log
        self.status, self.will_close = 200, False

    def _step(self, name: str) -> None:
        self._log.append(name)
        if self._steps and self._steps[0][0] == name:
            error = self._steps.pop(0)[1]
            if error is not None:
                raise error

    def connect(self) -> None:
        self._step("connect")

    def request(self, *_: Any) -> None:
        self._step("ask")

    def getresponse(self) -> "Connection":
        self._step("answer")
        return self

    def read(self, _size: int) -> bytes:
        self._step("read")
        return b"1"

    def close(self) -> None:
        pass


def transport(*steps: tuple[str, Exception | None]) -> tuple[HttpTransport, list[str]]:
    made, log, left = HttpTransport(["http://a", "http://b"], {}, 1), list[str](), list(steps)
    made._connect = lambda _address: Connection(left, log)  # type: ignore[method-assign, return-value, assignment]
    return made, log


@pytest.mark.parametrize("step", ["ask", "answer", "read"])
@pytest.mark.parametrize("error", [TimeoutError(), ConnectionResetError()])
def test_a_write_that_may_have_been_done_is_not_repeated(step: str, error: Exception) -> None:
    made, log = transport((step, error))
    with pytest.raises(SchemaRegistryError, match="did not answer"):
        made.request("POST", "/subjects/s/versions", {})
    assert log.count("ask") == 1


def test_a_write_on_a_kept_connection_that_times_out_is_not_repeated() -> None:
    made, log = transport(("answer", None), ("answer", TimeoutError()))
    assert made.request("POST", "/x") == (200, 1)
    with pytest.raises(SchemaRegistryError, match="did not answer"):
        made.request("POST", "/x")
    assert log.count("ask") == 2


def test_a_write_on_a_kept_connection_that_was_closed_meanwhile_is_repeated() -> None:
    made, log = transport(("answer", None), ("answer", ConnectionResetError()))
    assert made.request("POST", "/x") == made.request("POST", "/x") == (200, 1)
    assert log.count("connect") == 2


def test_the_next_address_is_tried_when_no_connection_comes_about() -> None:
    made, log = transport(("connect", TimeoutError()))
    assert made.request("POST", "/x") == (200, 1)
    assert log == ["connect", "connect", "ask", "answer", "read"]


def test_what_changes_nothing_is_asked_again() -> None:
    made, log = transport(("answer", TimeoutError()))
    assert made.request("GET", "/x") == (200, 1)
    assert log.count("ask") == 2
