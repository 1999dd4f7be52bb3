"""A client's token: fetched once for all logins, renewed in time, kept while its endpoint is away; and the login of a
link that needs one.
"""

import logging
from collections.abc import Callable

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.security.login_errors import LoginFailed
from headwater.base.security.sasl_client import Credentials
from headwater.client.backoff import Backoff
from headwater.client.errors import ConnectionFailed
from headwater.client.reactor.link import Link
from headwater.client.reactor.token_source import TokenSource
from headwater.client.token_requests import Renewal, Token, TokenNotFetched
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from unit.client.reactor.fakes import FakeBroker, FakeWorld

AWAY = TokenNotFetched("no token from https://login.example: connection refused")


class Endpoint:
    """Gives what it has been told to, in order; counts how often it was asked. `work` waits until the test does it."""

    def __init__(self, *answers: Token | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0
        self.work: list[Callable[[], None]] = []
        self.patience_s = 0.0

    def __call__(self) -> Token:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def source(self, **given: object) -> TokenSource:
        now = given.get("start", lambda work: work())
        return TokenSource(self, Renewal(), Backoff(100, 1000), self.patience_s, chance=lambda: 0.5, start=now)  # type: ignore[arg-type]


def renew(world: FakeWorld, source: TokenSource) -> str:
    world.run(source.renew(world.kernel, world.post))
    return source()


def test_logins_at_the_same_time_share_one_question() -> None:
    world, endpoint = FakeWorld(), Endpoint(Token("first", 3600))
    source = endpoint.source(start=endpoint.work.append)
    tasks = [world.kernel.spawn(source.renew(world.kernel, world.post)) for _ in range(3)]
    world.kernel.run_ready()
    assert len(endpoint.work) == 1
    endpoint.work.pop()()
    world.pass_time(0.1)
    assert [task.result() for task in tasks] == [None] * 3
    assert (source(), endpoint.asked) == ("first", 1)


def test_a_token_is_kept_until_a_part_of_its_life_has_passed() -> None:
    world, endpoint = FakeWorld(), Endpoint(Token("first", 3600), Token("second", 3600))
    source = endpoint.source()
    assert renew(world, source) == "first"
    world.pass_time(2969)
    assert renew(world, source) == "first"
    world.pass_time(2)
    assert renew(world, source) == "second"
    assert endpoint.asked == 2


def test_a_token_of_unknown_life_is_fetched_for_each_login() -> None:
    world, endpoint = FakeWorld(), Endpoint(Token("first", None), Token("second", None))
    source = endpoint.source()
    assert [renew(world, source), renew(world, source)] == ["first", "second"]


@pytest.mark.parametrize("problem", [AWAY, LoginFailed("it answered 401")])
def test_the_old_token_goes_on_until_its_end_where_a_renewal_fails(
    problem: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world, endpoint = FakeWorld(), Endpoint(Token("first-canary", 3600), problem, problem, Token("second", 3600))
    source = endpoint.source()
    renew(world, source)
    world.pass_time(3000)
    with caplog.at_level(logging.WARNING):
        assert renew(world, source) == "first-canary"
    assert "event=token-not-renewed" in caplog.text
    assert "canary" not in caplog.text
    world.pass_time(700)  # it has ended
    with pytest.raises(type(problem)):
        renew(world, source)
    world.pass_time(10)
    assert renew(world, source) == "second"


def test_an_endpoint_in_trouble_is_asked_again_after_pauses_that_double() -> None:
    world, endpoint = FakeWorld(), Endpoint(AWAY, AWAY, AWAY, Token("at last", 60))
    endpoint.patience_s = 5
    began = world.now
    assert renew(world, endpoint.source()) == "at last"
    assert 0.7 <= world.now - began < 0.8


def test_patience_ends_and_the_next_login_waits_for_the_rest_of_the_pause() -> None:
    world, endpoint = FakeWorld(), Endpoint(AWAY, AWAY, AWAY, Token("at last", 60))
    endpoint.patience_s = 0.5
    source, began = endpoint.source(), world.now
    with pytest.raises(TokenNotFetched):
        renew(world, source)
    assert 0.3 <= world.now - began < 0.4  # the next pause would have been too long
    assert renew(world, source) == "at last"
    assert 0.7 <= world.now - began < 0.8


def test_a_refusal_is_told_at_once() -> None:
    world, endpoint = FakeWorld(), Endpoint(LoginFailed("it answered 401"))
    endpoint.patience_s = 5
    with pytest.raises(LoginFailed):
        renew(world, endpoint.source())
    assert endpoint.asked == 1


def test_whatever_goes_wrong_those_who_wait_hear_of_it() -> None:
    world, endpoint = FakeWorld(), Endpoint(RuntimeError("hunter2"))
    with pytest.raises(TokenNotFetched, match=r"^RuntimeError$"):
        renew(world, endpoint.source())


def test_a_renewal_that_hangs_keeps_no_login_waiting_while_the_old_token_holds() -> None:
    """An endpoint behind a firewall that drops packets: logins failed for want of time, though there was a token."""
    world, endpoint = FakeWorld(), Endpoint(Token("first", 3600), Token("second", 3600))
    source = endpoint.source(start=endpoint.work.append)
    first = world.kernel.spawn(source.renew(world.kernel, world.post))
    world.kernel.run_ready()
    endpoint.work.pop()()
    world.pass_time(3000)
    assert first.done
    for _ in range(2):
        began = world.now
        assert renew(world, source) == "first"
        assert world.now - began < 5
    assert len(endpoint.work) == 1  # one question, however many logins
    world.pass_time(700)  # it has ended
    late = world.kernel.spawn(source.renew(world.kernel, world.post))
    world.pass_time(10)
    assert not late.done
    endpoint.work.pop()()
    world.pass_time(0.1)
    assert (late.result(), source()) == (None, "second")


def test_a_thread_that_cannot_be_started_is_told_and_the_next_login_tries_again() -> None:
    world, endpoint = FakeWorld(), Endpoint(Token("first", 3600))
    starts = 0

    def start(work: Callable[[], None]) -> None:
        nonlocal starts
        starts += 1
        if starts == 1:
            raise RuntimeError("can't start new thread")
        work()

    source = endpoint.source(start=start)
    with pytest.raises(TokenNotFetched):
        renew(world, source)
    assert renew(world, source) == "first"


def bearer_broker(world: FakeWorld, shown: list[bytes], lifetime_ms: int = 0) -> FakeBroker:
    broker = world.broker(0)
    broker.on(SaslHandshakeRequest, lambda _: SaslHandshakeResponse(mechanisms=["OAUTHBEARER"]))

    def authenticated(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
        shown.append(bytes(request.auth_bytes))
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)

    broker.on(SaslAuthenticateRequest, authenticated)
    return broker


def opened(world: FakeWorld, broker: FakeBroker, source: TokenSource) -> Link:
    credentials = Credentials("OAUTHBEARER", token=source)
    return world.run(Link.open(world.kernel, world, broker.address, client_id="test", credentials=credentials))


def test_links_log_in_with_the_token_and_later_with_the_next_one() -> None:
    world, shown = FakeWorld(), []  # type: ignore[var-annotated]
    endpoint = Endpoint(Token("first", 100), Token("second", 100))
    source, broker = endpoint.source(), bearer_broker(world, shown, lifetime_ms=100_000)
    link = opened(world, broker, source)
    assert link.is_open
    world.pass_time(86)  # the link is given up at 85 % of what its login holds: by then the token is renewed, too
    assert not link.is_open
    opened(world, broker, source)
    assert shown == [b"n,,\x01auth=Bearer first\x01\x01", b"n,,\x01auth=Bearer second\x01\x01"]


def test_an_endpoint_that_is_away_is_no_reason_to_give_up() -> None:
    world = FakeWorld()
    with pytest.raises(ConnectionFailed, match="connection refused"):
        opened(world, bearer_broker(world, []), Endpoint(AWAY).source())


def test_an_endpoint_that_refuses_is() -> None:
    world = FakeWorld()
    with pytest.raises(KafkaError, match="401") as told:
        opened(world, bearer_broker(world, []), Endpoint(LoginFailed("it answered 401")).source())
    assert told.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
