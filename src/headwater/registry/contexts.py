"""Paths with a context before them: `/contexts/.a/subjects/s/versions` is `/subjects/:.a:s/versions`. Pure.

An alias in the config of a subject is followed here too: the subject of a path under /subjects and /compatibility is
the one that is meant.
"""

from dataclasses import replace
from urllib.parse import quote

from headwater.registry.decisions.settings import alias_of
from headwater.registry.state import State
from headwater.registry.subjects import Subject, normalized, parse_subject
from headwater.web.messages import Request


def rewritten(request: Request, state: State) -> Request:
    segments, query_string = request.segments, request.query_string
    if len(segments) > 2 and segments[0] == "contexts":
        context = parse_subject(segments[1] if segments[1].startswith(":") else f":{segments[1]}:").context
        segments, query_string = _within(context, segments[2:], query_string)
    place = _place_of_subject(segments)
    if place is not None and segments[0] in ("subjects", "compatibility"):
        meant = alias_of(state, normalized(segments[place]))
        segments = (*segments[:place], meant, *segments[place + 1 :])
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
        if parse_subject(segments[place]).text == segments[place] and not segments[place].startswith(":"):
            segments = (*segments[:place], Subject(context, segments[place]).text, *segments[place + 1 :])
        return segments, query_string
    alone = quote(f":{context}:", safe="")
    if segments[:1] in (("config",), ("mode",)):
        return (*segments, f":{context}:"), query_string
    name = "subjectPrefix" if segments in (("subjects",), ("schemas",)) else "subject"
    if f"{name}=" in query_string:
        return segments, query_string
    return segments, f"{query_string}&{name}={alone}" if query_string else f"{name}={alone}"
