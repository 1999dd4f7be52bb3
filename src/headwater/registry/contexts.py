"""Paths with a context before them: `/contexts/.a/subjects/s/versions` is `/subjects/:.a:s/versions`. Pure.

A subject or prefix in the query (`subject` of an id, `subjectPrefix` of a listing) is in the context of the path too,
unless it names one itself. An alias in the config of a subject is followed here: the subject of a path under /subjects
and /compatibility, and that of a query under /schemas/ids, is the one that is meant.
"""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlencode

from headwater.registry.decisions.settings import alias_of
from headwater.registry.state import State
from headwater.registry.subjects import Subject, names_context, normalized, parse_context
from headwater.web.messages import Query, Request


def rewritten(request: Request, state: State) -> Request:
    """Raises HttpError for a context that is none."""
    segments, query_string = request.segments, request.query_string
    if len(segments) > 2 and segments[0] == "contexts":
        segments, query_string = _within(parse_context(segments[1]), segments[2:], query_string)
    place = _place_of_subject(segments)
    if place is not None and segments[0] in ("subjects", "compatibility"):
        meant = alias_of(state, normalized(segments[place]))
        segments = (*segments[:place], meant, *segments[place + 1 :])
    elif segments[:2] == ("schemas", "ids") and "subject" in query_string:
        query_string = _with_parameter(query_string, "subject", lambda given: _meant(state, given))
    if segments == request.segments and query_string == request.query_string:
        return request
    return replace(request, segments=segments, query_string=query_string)


def _place_of_subject(segments: tuple[str, ...]) -> int | None:
    place = 2 if segments[:2] == ("compatibility", "subjects") else 1
    known = segments[:1] in (("subjects",), ("config",), ("mode",)) or place == 2
    return place if known and len(segments) > place else None


def _within(context: str, segments: tuple[str, ...], query_string: str) -> tuple[tuple[str, ...], str]:
    place = _place_of_subject(segments)
    if place is not None:
        if not names_context(segments[place]):
            segments = (*segments[:place], Subject(context, segments[place]).text, *segments[place + 1 :])
        return segments, query_string
    if segments[:1] in (("config",), ("mode",)):
        return (*segments, f":{context}:"), query_string
    name = "subjectPrefix" if segments in (("subjects",), ("schemas",)) else "subject"
    return segments, _with_parameter(query_string, name, lambda given: _qualified(context, given), default="")


def _qualified(context: str, given: str) -> str:
    return given if names_context(given) else f":{context}:{given}"


def _meant(state: State, given: str) -> str:
    return alias_of(state, normalized(given)) if given else given


def _with_parameter(query_string: str, name: str, change: Callable[[str], str], default: str | None = None) -> str:
    """The query with another value of one parameter; one that is not there is added if it has a default."""
    given = Query.parse(query_string)
    pairs = [(each, change(value) if each == name else value) for each, value in given]
    if name not in given and default is not None:
        pairs.append((name, change(default)))
    return query_string if pairs == list(given) else urlencode(pairs)
