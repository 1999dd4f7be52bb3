"""Paths with a context before them, and aliases: which subject is meant."""

import pytest

from headwater.registry.contexts import rewritten
from headwater.registry.records import CONFIG, Key
from headwater.registry.state import State
from headwater.web.messages import HttpError, Request
from headwater.web.parser import split_target


@pytest.mark.parametrize(
    ("target", "segments", "query"),
    [
        ("/subjects/s/versions", ("subjects", "s", "versions"), ""),
        ("/contexts", ("contexts",), ""),
        ("/contexts/.c", ("contexts", ".c"), ""),
        ("/contexts/.c/subjects/s/versions/1?deleted=true", ("subjects", ":.c:s", "versions", "1"), "deleted=true"),
        ("/contexts/%3A.c%3A/subjects/s", ("subjects", ":.c:s"), ""),
        ("/contexts/.c/subjects/%3A.d%3As", ("subjects", ":.d:s"), ""),
        ("/contexts/.c/compatibility/subjects/s/versions", ("compatibility", "subjects", ":.c:s", "versions"), ""),
        ("/contexts/.c/config", ("config", ":.c:"), ""),
        ("/contexts/.c/mode/s", ("mode", ":.c:s"), ""),
        ("/contexts/.c/subjects", ("subjects",), "subjectPrefix=%3A.c%3A"),
        ("/contexts/.c/schemas/ids/1?x=y", ("schemas", "ids", "1"), "x=y&subject=%3A.c%3A"),
        ("/contexts/.c/schemas/ids/1?subject=s", ("schemas", "ids", "1"), "subject=%3A.c%3As"),
        ("/contexts/.c/schemas/ids/1?subject=%3A.d%3As", ("schemas", "ids", "1"), "subject=%3A.d%3As"),
        ("/contexts/.c/subjects?subjectPrefix=s&limit=2", ("subjects",), "subjectPrefix=%3A.c%3As&limit=2"),
        ("/contexts/c/subjects/s", ("subjects", ":.c:s"), ""),
        ("/contexts/c/config", ("config", ":.c:"), ""),
        ("/schemas/ids/1/versions?subject=nick", ("schemas", "ids", "1", "versions"), "subject=real"),
        ("/schemas/ids/1?subject=s&x=%20", ("schemas", "ids", "1"), "subject=s&x=%20"),
        ("/contexts/./subjects/s", ("subjects", "s"), ""),
        ("/subjects/nick/versions", ("subjects", "real", "versions"), ""),
        ("/compatibility/subjects/nick/versions", ("compatibility", "subjects", "real", "versions"), ""),
        ("/config/nick", ("config", "nick"), ""),  # where the alias itself is set
        ("/subjects/%3A.%3Anick", ("subjects", "real"), ""),
    ],
)
def test_which_subject_is_meant(target: str, segments: tuple[str, ...], query: str) -> None:
    state = State()
    state.apply_record(Key(CONFIG, "nick"), {"alias": "real"})
    found = rewritten(Request("GET", target, *split_target(target)), state)
    assert (found.segments, found.query_string) == (segments, query)


def test_a_context_with_a_colon_in_its_name_is_none() -> None:
    target = "/contexts/.c%3Ad/subjects/s"
    with pytest.raises(HttpError) as caught:
        rewritten(Request("GET", target, *split_target(target)), State())
    assert caught.value.status == 400
