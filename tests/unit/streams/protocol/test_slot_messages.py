"""What the lead and its slots say: there and back, and what is no message."""

import json
from typing import get_args

import pytest

from headwater.spark.slots.message_codec import EndLease, Heartbeat, Hello, Leaving
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol.slot_messages import CODEC, Assign, Message, Progress

SAMPLES: list[Message] = [
    Hello(3, "machine:17", 2),
    Heartbeat(),
    messages.Ready("app", ["0_0"], "host:/state"),
    messages.Owned("app", 7, ["0_1", "1_0"], ["0_0"]),
    messages.AskProducer("app"),
    messages.CommitOffsets("app", [["topic", 0, 5, "note"]]),
    Progress("app", 12, {"late": 1}, [{"task": "0_1"}], [{"error": "e"}], [{"task": "0_0", "lag": None}]),
    messages.Released("app"),
    messages.GaveUp("app"),
    messages.Failed("app", "what", "why", "hint"),
    Leaving(),
    messages.Introduce("app", "cGlja2xlZA==", 9, 1, "member", "lead", 4, 2),
    Assign("app", 8, [], ["0_0"]),
    messages.Pause("app", paused=True),
    messages.Producer("app", 4, 3, 1, "member"),
    messages.OffsetsCommitted("app", 0),
    messages.NewMember("app", 2, "member"),
    messages.StopApplication("app"),
    EndLease(),
]


def test_every_kind_goes_there_and_back() -> None:
    assert {type(sample) for sample in SAMPLES} == set(get_args(Message))
    for sample in SAMPLES:
        assert CODEC.decode(CODEC.encode(sample)) == sample


@pytest.mark.parametrize(
    "told",
    [
        "no json",
        "[]",
        "{}",
        json.dumps({"kind": "__init__"}),
        json.dumps({"kind": "Hello", "number": "3", "process": "p"}),
        json.dumps({"kind": "Hello", "number": True, "process": "p"}),
        json.dumps({"kind": "Hello", "number": 3}),
        json.dumps({"kind": "Hello", "number": 3, "process": "p", "more": 1}),
        json.dumps({"kind": "Assign", "application": "app", "grant": 1, "tasks": "0_0"}),
        "[" * 100_000,
        "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    ],
    ids=range(11),
)
def test_what_is_no_message_is_refused(told: str) -> None:
    with pytest.raises(ValueError):
        CODEC.decode(told.encode("latin-1"))
