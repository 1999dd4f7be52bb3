"""The settings that every client takes, and what becomes of them: a `SessionSettings` and a `Network`."""

from typing import Final

from headwater.base.config.definition import ConfigType
from headwater.base.config.validators import AtLeast
from headwater.client.addresses import parse_bootstrap
from headwater.client.backoff import Backoff
from headwater.client.reactor.network import Network
from headwater.client.session import SessionSettings
from headwater.client.settings.parsing import Settings, row, table_of
from headwater.client.settings.security import (
    OLD_SECURITY_NAMES,
    SECURITY,
    check_security,
    credentials_of,
    streams_of,
)

COMMON: Final = {
    **table_of(
        row(
            "bootstrap.servers",
            ConfigType.LIST,
            ["localhost:9092"],
            "host:port of some brokers; one that answers is enough to find the others.",
        ),
        row(
            "client.id", ConfigType.STRING, "headwater", "How the client calls itself in the broker's logs and quotas."
        ),
        row(
            "request.timeout.ms",
            ConfigType.INT,
            30_000,
            "How long the answer to one request may take. Then the connection is closed and the request tried again.",
            AtLeast(1),
        ),
        row("retry.backoff.ms", ConfigType.LONG, 100, "The first pause before a request is tried again.", AtLeast(0)),
        row(
            "retry.backoff.max.ms",
            ConfigType.LONG,
            1000,
            "The longest pause: each is twice the one before, up to this.",
            AtLeast(0),
        ),
        row(
            "reconnect.backoff.ms", ConfigType.LONG, 50, "The first pause before a broker is dialled again.", AtLeast(0)
        ),
        row(
            "reconnect.backoff.max.ms",
            ConfigType.LONG,
            1000,
            "The longest pause before a broker is dialled again.",
            AtLeast(0),
        ),
        row(
            "socket.connection.setup.timeout.ms",
            ConfigType.LONG,
            10_000,
            "How long the making of a connection may take, until the broker has said which versions it speaks. Where any broker will do, the next is tried beside it after a second.",
            AtLeast(1),
        ),
        row(
            "metadata.max.age.ms",
            ConfigType.LONG,
            300_000,
            "After how long the client asks again which topics, partitions and leaders there are, even if nothing went wrong.",
            AtLeast(0),
        ),
        row(
            "send.buffer.bytes",
            ConfigType.INT,
            -1,
            "The sockets' send buffer; -1 leaves it to the operating system.",
            AtLeast(-1),
        ),
        row(
            "receive.buffer.bytes",
            ConfigType.INT,
            -1,
            "The sockets' receive buffer; -1 leaves it to the operating system.",
            AtLeast(-1),
        ),
        row(
            "connections.max.idle.ms",
            ConfigType.LONG,
            540_000,
            "Without effect: brokers close idle connections.",
            used=False,
        ),
        row("client.dns.lookup", ConfigType.STRING, "use_all_dns_ips", "Without effect: all are tried.", used=False),
        row("metric.reporters", ConfigType.LIST, [], "Without effect.", used=False),
        row("enable.metrics.push", ConfigType.BOOLEAN, False, "Without effect.", used=False),
    ),
    **SECURITY,
}

OLD_NAMES: Final = {
    "metadata.broker.list": "bootstrap.servers",
    "broker.list": "bootstrap.servers",
    **OLD_SECURITY_NAMES,
}


def session_settings(settings: Settings, api_timeout_ms: int) -> SessionSettings:
    check_security(settings)
    return SessionSettings(
        bootstrap=parse_bootstrap(settings["bootstrap.servers"]),
        client_id=settings.text("client.id"),
        request_timeout_ms=settings.number("request.timeout.ms"),
        api_timeout_ms=api_timeout_ms,
        connect_timeout_ms=settings.number("socket.connection.setup.timeout.ms"),
        metadata_max_age_ms=settings.number("metadata.max.age.ms"),
        backoff=Backoff(settings.number("retry.backoff.ms"), settings.number("retry.backoff.max.ms")),
        reconnect_backoff=Backoff(settings.number("reconnect.backoff.ms"), settings.number("reconnect.backoff.max.ms")),
        credentials=credentials_of(settings),
    )


def network(settings: Settings) -> Network:
    return Network(
        send_buffer_bytes=settings.number("send.buffer.bytes"),
        receive_buffer_bytes=settings.number("receive.buffer.bytes"),
        stream_to=streams_of(settings),
    )
