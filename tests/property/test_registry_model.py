"""Any history of a registry: no id ever stands for two schemas, and what the log says is what the registry knows,
compacted or not.
"""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headwater.registry.decisions import deleting, registering, settings
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.registering import Registry
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Decision, Rules, run_in_place
from headwater.registry.records import encode_key, encode_value
from headwater.registry.state import State
from headwater.registry.subjects import beside, parse_subject
from headwater.web.messages import HttpError

SUBJECTS = st.sampled_from(["a", "b", ":.c:a"])
SCHEMAS = st.sampled_from(['"int"', '"long"', '"string"', json.dumps({"type": "fixed", "name": "F", "size": 1})])
REFERRING = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": "F"}]})
RULES = Rules(compatibility="NONE")
PARSER = SchemaParser()

STEPS = st.one_of(
    st.tuples(st.just("register"), SUBJECTS, SCHEMAS),
    st.tuples(st.just("refer"), SUBJECTS, SUBJECTS),
    st.tuples(st.just("import"), SUBJECTS, SCHEMAS, st.integers(1, 9), st.integers(1, 5)),
    st.tuples(st.just("delete version"), SUBJECTS, st.integers(1, 4), st.booleans()),
    st.tuples(st.just("delete"), SUBJECTS, st.booleans()),
    st.tuples(
        st.just("mode"), st.sampled_from([None, "a", ":.c:"]), st.sampled_from(["READWRITE", "IMPORT"]), st.booleans()
    ),
    st.tuples(st.just("restart")),
)


class History:
    def __init__(self) -> None:
        self.state = State()
        self.log: list[tuple[bytes, bytes | None]] = []
        self.given: dict[tuple[str, int], str] = {}  # (context, id) -> the guid that it was given for, ever

    def decide(self, step: tuple[Any, ...]) -> Decision:
        registry = Registry(self.state, RULES, PARSER)
        match step:
            case ("register", subject, text):
                return run_in_place(registering.registration(registry, subject, schema_request({"schema": text})))
            case ("refer", subject, other):
                reference = {"name": "F", "subject": other, "version": -1}
                request = schema_request({"schema": REFERRING, "references": [reference]})
                return run_in_place(registering.registration(registry, subject, request))
            case ("import", subject, text, id_, version):
                request = schema_request({"schema": text, "id": id_, "version": version})
                return run_in_place(registering.registration(registry, subject, request))
            case ("delete version", subject, version, permanent):
                return deleting.delete_version(self.state, subject, version, permanent=permanent)
            case ("delete", subject, permanent):
                return deleting.delete_subject(self.state, subject, permanent=permanent)
            case ("mode", subject, mode, force):
                return settings.set_mode(self.state, RULES, subject, {"mode": mode}, force=force)
        raise AssertionError(step)

    def take(self, step: tuple[Any, ...]) -> None:
        if step[0] == "restart":
            self.state = self.replayed(compacted=True)
            return
        try:
            decision = self.decide(step)
        except HttpError:
            return
        imported = step[0] == "import"
        for each in decision.records:
            key, value = encode_key(each.key), encode_value(each.value)
            self.log.append((key, value))
            self.state.apply(key, value)
        self.check(imported)

    def replayed(self, *, compacted: bool) -> State:
        last = {key: place for place, (key, _) in enumerate(self.log)}
        state = State()
        for place, (key, value) in enumerate(self.log):
            if not compacted or (last[key] == place and value is not None):
                state.apply(key, value)
        return state

    def check(self, imported: bool) -> None:
        assert self.replayed(compacted=False).subjects == self.state.subjects
        assert self.replayed(compacted=True).subjects == self.state.subjects
        for subject, versions in self.state.subjects.items():
            context = parse_subject(subject).context
            for version in versions.values():
                place = (context, version.id)
                known = self.given.setdefault(place, version.guid)
                assert known == version.guid or imported, f"the id {place} was given again"
                self.given[place] = version.guid
                assert version.id <= self.state.max_ids[context]
                for reference in version.content.references:
                    target = beside(subject, reference.subject)
                    assert self.state.version(target, reference.version, deleted=True) is not None, (
                        "a reference leads nowhere"
                    )


@given(st.lists(STEPS, max_size=25))
def test_no_id_stands_for_two_schemas_and_the_log_is_what_is_known(steps: list[tuple[Any, ...]]) -> None:
    history = History()
    for step in steps:
        history.take(step)
