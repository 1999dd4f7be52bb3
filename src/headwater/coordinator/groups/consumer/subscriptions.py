"""What subscriptions mean in topics: regular expressions resolved, names turned into ids, and a hash that tells when
those topics changed.

Regular expressions are RE2, as in Kafka (KIP-848): they match in linear time, whatever a client writes. A whole topic
name must match. The hash is our own, over name, id and number of partitions of each topic. Kafka's differs, and that
does no harm: a group that was loaded from Kafka's log has its epoch raised once.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.groups.consumer.member import Member
from headwater.coordinator.groups.context import Topics
from headwater.coordinator.records.consumer_records import RegularExpressionValue

PATTERN_LENGTH_MAX: Final = 10_000
PATTERN_MEMORY_BYTES_MAX: Final = 1 << 20


class ResolvedRegex(NamedTuple):
    topics: frozenset[str]
    version: int  # of the metadata that it was resolved with
    timestamp_ms: int

    def value(self) -> RegularExpressionValue:
        return RegularExpressionValue(topics=sorted(self.topics), version=self.version, timestamp=self.timestamp_ms)

    @classmethod
    def from_value(cls, value: RegularExpressionValue) -> "ResolvedRegex":
        return cls(frozenset(value.topics), value.version, value.timestamp)


def compile_regex(pattern: str) -> Any:
    """RE2's compiled pattern. KafkaError(INVALID_REGULAR_EXPRESSION) says what is wrong with it."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    try:
        if len(pattern) > PATTERN_LENGTH_MAX:
            raise re2.error(f"longer than {PATTERN_LENGTH_MAX} characters")
        return re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {text}.",
        ) from None


def resolve_regex(pattern: str, topics: Topics, now_ms: int) -> ResolvedRegex:
    """One that cannot be compiled (another version of RE2 accepted it) stands for no topics."""
    try:
        compiled = compile_regex(pattern)
    except KafkaError:
        return ResolvedRegex(frozenset(), topics.version, now_ms)
    names = frozenset(name for name in topics.ids if compiled.fullmatch(name) is not None)
    return ResolvedRegex(names, topics.version, now_ms)


def subscribed_names(member: Member, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    resolved = regexes.get(member.regex)
    return member.topic_names if resolved is None else member.topic_names | resolved.topics


def subscribed_ids(member: Member, regexes: Mapping[str, ResolvedRegex], topics: Topics) -> frozenset[bytes]:
    """Of the topics that exist."""
    ids = topics.ids
    return frozenset(ids[name] for name in subscribed_names(member, regexes) if name in ids)


def metadata_hash(names: Iterable[str], topics: Topics) -> int:
    """Zero when none of the topics exists. Signed, as it is written."""
    from hashlib import blake2b

    digest = blake2b(digest_size=8)
    empty = True
    for name in sorted(set(names)):
        topic_id = topics.ids.get(name)
        if topic_id is None:
            continue
        empty = False
        encoded = name.encode()
        digest.update(b"%d:%b%b%d;" % (len(encoded), encoded, topic_id, topics.partition_count(name) or 0))
    return 0 if empty else int.from_bytes(digest.digest(), "big", signed=True)
