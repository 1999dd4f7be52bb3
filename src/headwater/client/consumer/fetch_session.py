"""A fetch session with one broker (KIP-227): only what changed since the last request is sent.

Pure: `plan` gives the request for the partitions that are wanted now, `answered` takes the outcome. The broker may
decline to keep a session (id 0), or forget it: then the next request is a full one. Owned by the fetcher, one per
broker.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 0x7FFF_FFFF


class Wanted(NamedTuple):
    """What is asked of one partition. Two equal ones need not be sent twice."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_fetched_epoch: int
    max_bytes: int


class Plan(NamedTuple):
    session_id: int
    session_epoch: int
    send: dict[TopicPartition, Wanted]
    forget: dict[TopicPartition, bytes]  # with the topic's id
    names: dict[bytes, str]  # of all topics in the session


class FetchSession:
    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[TopicPartition, Wanted] = {}

    def plan(self, wanted: Mapping[TopicPartition, Wanted]) -> Plan:
        names = {each.topic_id: partition.topic for partition, each in wanted.items()}
        if self._epoch == INITIAL_EPOCH:
            self._known = dict(wanted)
            return Plan(self._id, INITIAL_EPOCH, dict(wanted), {}, names)
        known = self._known
        forget: dict[TopicPartition, bytes] = {}
        for partition, before in known.items():
            now = wanted.get(partition)
            if now is None or now.topic_id != before.topic_id:
                forget[partition] = before.topic_id
        send = {partition: each for partition, each in wanted.items() if known.get(partition) != each}
        # Changed ones go to the end: the broker looks at a session's partitions in order, and so none starves.
        for partition in forget:
            del known[partition]
        for partition, each in send.items():
            known.pop(partition, None)
            known[partition] = each
        return Plan(self._id, self._epoch, send, forget, names)

    def has(self, partition: TopicPartition) -> bool:
        """Whether it is in the session, whatever was asked of it: the broker tells nothing of it but records and ends
        that it has not told before.
        """
        return self._epoch != INITIAL_EPOCH and partition in self._known

    def answered(self, error_code: int, session_id: int) -> None:
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.reset()
            self._id = NO_SESSION
        elif error_code:
            self.reset()
        elif session_id == NO_SESSION:
            self.reset()
            self._id = NO_SESSION
        else:
            self._id = session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def reset(self) -> None:
        """The next request is a full one, and ends the session that there may be."""
        self._epoch = INITIAL_EPOCH
        self._known = {}
