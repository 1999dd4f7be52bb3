"""Errors for people: what happened, why, and the command that helps. Pure: an exception in, lines of text out."""

from difflib import get_close_matches
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.errors import BootstrapFailed, ConnectionFailed, NotTrusted, RequestTimedOut, UnknownTopic

_GRANTED: Final = "An administrator grants rights with `kafka-acls --add --allow-principal User:NAME --operation ...`"
_HINTS: Final = {
    ErrorCode.TOPIC_ALREADY_EXISTS: "See it with `headwater topic describe NAME`, change it with `headwater topic alter NAME`",
    ErrorCode.INVALID_REPLICATION_FACTOR: "A replication factor cannot be above the number of brokers; see `headwater status`",
    ErrorCode.MESSAGE_TOO_LARGE: "Raise it with `headwater config set topic NAME max.message.bytes=BYTES`",
    ErrorCode.RECORD_LIST_TOO_LARGE: "Raise it with `headwater config set topic NAME max.message.bytes=BYTES`",
    ErrorCode.OFFSET_OUT_OF_RANGE: "See what there is with `headwater topic offsets NAME`",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "Check the user, password and mechanism of --profile or --command-config; `headwater user add NAME` sets a password",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _GRANTED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _GRANTED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _GRANTED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _GRANTED,
    ErrorCode.NOT_ENOUGH_REPLICAS: "Fewer replicas are in sync than min.insync.replicas; see `headwater topic describe NAME`",
}


def explain(error: UserError | KafkaError) -> str:
    if isinstance(error, UserError):
        return _lines(error.what, error.why, error.hint)
    if isinstance(error, BootstrapFailed):
        return _cannot_reach(error.attempts)
    if isinstance(error, ConnectionFailed | RequestTimedOut):
        return _cannot_reach([error])
    if isinstance(error, UnknownTopic):
        return _unknown_topic(error)
    if isinstance(error, NotTrusted):  # of a broker that was not let speak
        by_profile = "A profile names it: `headwater profile create NAME --ca-file FILE ...`"
        return _lines(error.message or "", "", by_profile if "ssl.truststore" in str(error) else "")
    name = error.code.name
    return _lines(error.message or name, f"the broker says {name}" if error.message else "", _HINTS.get(error.code, ""))


def _cannot_reach(attempts: list[KafkaError]) -> str:
    refused = all(isinstance(attempt, ConnectionFailed) and attempt.refused for attempt in attempts)
    hint = "Start a broker here with `headwater up -d`, or name another with --bootstrap-server" if refused else ""
    if any(isinstance(attempt, ConnectionFailed) and attempt.mute for attempt in attempts):
        hint = "If it wants TLS or a login, name them: --profile (see `headwater profile create`) or --command-config"
    if len(attempts) == 1:
        attempt = attempts[0]
        address = getattr(attempt, "address", None)
        reason = (attempt.message or attempt.code.name).removeprefix(f"{address}: ")
        return _lines(f"Cannot reach a broker at {address}", reason, hint)
    tried = "".join(f"\n  {attempt.message}" for attempt in attempts)
    return _lines(f"Cannot reach any broker; tried {len(attempts)} addresses:{tried}", "", hint)


def _unknown_topic(error: UnknownTopic) -> str:
    close = get_close_matches(error.topic, error.known, n=3, cutoff=0.6)
    if close:
        hint = f"Did you mean {' or '.join(close)}?"
    else:
        hint = f"Make it with `headwater topic create {error.topic}`, or see what there is with `headwater topic list`"
    return _lines(f"There is no topic {error.topic!r}", "", hint)


def _lines(what: str, why: str, hint: str) -> str:
    text = f"error: {what.rstrip('.')}: {why}" if why else f"error: {what}"
    return f"{text.rstrip('.')}\n{hint}" if hint else text.rstrip(".")
