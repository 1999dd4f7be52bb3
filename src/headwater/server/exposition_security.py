"""What the metrics tell of logins, of quotas and of the audit topic.

Names are those that Prometheus' exporter for JMX gives Apache Kafka's own metrics (its example file for Kafka), so that
dashboards find them; what Apache Kafka does not have begins with `headwater_`. Users and clients choose their names:
labels are escaped and cut, and there are `_ROWS_MAX` rows at most.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final

from headwater.base.printable import printable
from headwater.broker.quotas.client_quotas import ClientQuotas, Used
from headwater.broker.quotas.entities import FETCH, MUTATION, PRODUCE, REQUEST
from headwater.broker.quotas.rates import Rate

if TYPE_CHECKING:
    from headwater.broker.audit.trail import AuditTrail
    from headwater.server.security.handshakes import Handshakes
    from headwater.server.security.listener_security import ListenerSecurity

_ROWS_MAX: Final = 1000
_LABEL_MAX: Final = 255
_RESOURCES: Final = {PRODUCE: "Produce", FETCH: "Fetch", REQUEST: "Request", MUTATION: "ControllerMutation"}
_RATES: Final = {PRODUCE: "byte_rate", FETCH: "byte_rate", REQUEST: "request_time"}
_LOGINS: Final = {
    "kafka_server_socket_server_metrics_successful_authentication_total": "logged_in",
    "kafka_server_socket_server_metrics_failed_authentication_total": "failed",
    "kafka_server_socket_server_metrics_successful_reauthentication_total": "logged_in_again",
    "kafka_server_socket_server_metrics_failed_reauthentication_total": "again_failed",
    "kafka_server_socket_server_metrics_expired_connections_killed_count": "expired",
    "headwater_tls_handshakes_total": "handshakes",
}


def login_lines(securities: "dict[str, ListenerSecurity]", handshakes: "Handshakes") -> Iterator[str]:
    if not securities:
        return
    for name, field in _LOGINS.items():
        yield f"# TYPE {name} counter"
        for listener, security in securities.items():
            yield f'{name}{{listener="{label(listener)}"}} {getattr(security.counts, field)}'
    yield "# TYPE headwater_tls_handshakes_under_way gauge"
    yield f"headwater_tls_handshakes_under_way {handshakes.under_way}"
    yield "# TYPE headwater_tls_handshakes_waiting gauge"
    yield f"headwater_tls_handshakes_waiting {handshakes.waiting}"


def quota_lines(quotas: ClientQuotas | None, now_ms: int) -> Iterator[str]:
    """By user and client: how fast, and for how long they were told to wait, in milliseconds on average."""
    if quotas is None:
        return
    rows = list(islice(quotas.used(), _ROWS_MAX))
    for metric in ("byte_rate", "request_time"):
        told = [(whose, used) for whose, used in rows if _RATES.get(whose.quota) == metric and isinstance(used, Rate)]
        if told:
            yield f"# TYPE kafka_server_quota_{metric} gauge"
        for whose, used in told:
            yield f"kafka_server_quota_{metric}{{{_labels(whose)}}} {used.per_second(now_ms):.3f}"
    throttled = [(whose, used.throttles) for whose, used in rows if used.throttles is not None]
    if throttled:
        yield "# TYPE kafka_server_quota_throttle_time gauge"
        for whose, throttles in throttled:
            yield f"kafka_server_quota_throttle_time{{{_labels(whose)}}} {throttles.average_ms(now_ms):.3f}"
        yield "# TYPE headwater_quota_throttle_seconds_total counter"
        for whose, throttles in throttled:
            yield f"headwater_quota_throttle_seconds_total{{{_labels(whose)}}} {throttles.total_ms / 1000}"


def audit_lines(audit: "AuditTrail") -> Iterator[str]:
    if audit.is_on:
        yield "# TYPE headwater_audit_events_written_total counter"
        yield f"headwater_audit_events_written_total {audit.written}"
        yield "# TYPE headwater_audit_events_dropped_total counter"
        yield f"headwater_audit_events_dropped_total {audit.dropped}"


def _labels(whose: Used) -> str:
    user, client_id = label(whose.user or ""), label(whose.client_id or "")
    return f'resource="{_RESOURCES[whose.quota]}",user="{user}",clientId="{client_id}"'


def label(text: str) -> str:
    """A value between quotes. Whatever is not printable stands as its escape: a label is one line, and UTF-8."""
    return printable(text[:_LABEL_MAX]).replace("\\", "\\\\").replace('"', '\\"')
