"""A registry of pure parts, whose log is a list."""

import copy
import json
from typing import Any

import pytest

from headwater.registry.decisions import registering
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Decision, Rules, run_in_place
from headwater.registry.records import decode_key, encode_key, encode_value
from headwater.registry.state import State
from headwater.web.messages import HttpError


def record(name: str, *fields: tuple[str, Any]) -> str:
    return json.dumps(
        {"type": "record", "name": name, "fields": [{"name": each, "type": kind} for each, kind in fields]}
    )


class Twin:
    """A registry whose topic is `log`. The records of each write are also applied ahead of it, as a leader does that
    writes several at a time: that must come out equal, and must not be seen before.
    """

    def __init__(self, rules: Rules | None = None) -> None:
        self.registry = Registry(State(), rules or Rules(), SchemaParser())
        self.log: list[tuple[bytes, bytes | None]] = []

    @property
    def state(self) -> State:
        return self.registry.state

    def write(self, decision: Decision) -> Any:
        ahead, before = self.state.ahead(), copy.deepcopy(self.state)
        for each in decision.records:
            ahead.apply_record(each.key, each.value)
        assert self.state == before
        for each in decision.records:
            key, value = encode_key(each.key), encode_value(each.value)
            assert decode_key(key) == each.key
            self.log.append((key, value))
            self.state.apply(key, value)
        assert ahead == self.state
        return decision.answer

    def register(self, subject: str, schema: str, *, normalize: bool = False, force: bool = False, **more: Any) -> Any:
        request = schema_request({"schema": schema, **more})
        steps = registering.registration(self.registry, subject, request, normalize=normalize, force=force)
        return self.write(run_in_place(steps))

    def compacted(self) -> State:
        """What a registry reads that starts after the topic was compacted, tombstones gone too."""
        last = {key: place for place, (key, _) in enumerate(self.log)}
        state = State()
        for place, (key, value) in enumerate(self.log):
            if last[key] == place and value is not None:
                state.apply(key, value)
        return state


def code(call: Any, *arguments: Any, **more: Any) -> int:
    with pytest.raises(HttpError) as caught:
        call(*arguments, **more)
    return caught.value.code
