"""Routes, query parameters, JSON bodies and which content type a client gets."""

import json

import pytest

from headwater.web.content import depth_of, json_response, negotiate, parse_json
from headwater.web.messages import HttpError, Query, Request, Response
from headwater.web.parser import split_target
from headwater.web.router import Router


def named(name: str):
    async def handler(_request: Request) -> Response:
        return Response(200, name.encode())

    handler.__name__ = name
    return handler


ROUTER = Router()
for method, pattern in [
    ("GET", "/"),
    ("GET", "/subjects"),
    ("POST", "/subjects/{subject}"),
    ("DELETE", "/subjects/{subject}"),
    ("GET", "/subjects/{subject}/versions/{version}"),
    ("GET", "/subjects/{subject}/versions/latest"),
    ("GET", "/subjects/special/metadata"),
]:
    ROUTER.add(method, pattern, named(f"{method} {pattern}"))


@pytest.mark.parametrize(
    ("method", "target", "name", "parameters"),
    [
        ("GET", "/", "GET /", {}),
        ("HEAD", "/subjects/", "GET /subjects", {}),
        ("POST", "/subjects/a%2Fb", "POST /subjects/{subject}", {"subject": "a/b"}),
        (
            "GET",
            "/subjects/s/versions/1",
            "GET /subjects/{subject}/versions/{version}",
            {"subject": "s", "version": "1"},
        ),
        ("GET", "/subjects/s/versions/latest", "GET /subjects/{subject}/versions/latest", {"subject": "s"}),
        # a literal that leads nowhere is given up for the parameter in its place
        (
            "GET",
            "/subjects/special/versions/2",
            "GET /subjects/{subject}/versions/{version}",
            {"subject": "special", "version": "2"},
        ),
        ("GET", "/subjects/special/metadata", "GET /subjects/special/metadata", {}),
    ],
)
def test_routes(method: str, target: str, name: str, parameters: dict[str, str]) -> None:
    handler, request = ROUTER.route(Request(method, target, split_target(target)[0]))
    assert (handler.__name__, request.parameters) == (name, parameters)  # type: ignore[attr-defined]


def test_an_unknown_path_is_404_and_another_method_405() -> None:
    with pytest.raises(HttpError) as caught:
        ROUTER.route(Request("GET", "/x", ("x",)))
    assert caught.value.status == 404
    with pytest.raises(HttpError) as caught:
        ROUTER.route(Request("PUT", "/subjects/s", ("subjects", "s")))
    assert (caught.value.status, caught.value.headers) == (405, {"Allow": "DELETE, POST"})


def test_booleans_come_as_python_and_java_write_them() -> None:
    query = Query.parse("a=True&b=False&c=true&d=&e=yes&n=-12&x=%2F&x=2")
    assert [query.boolean(name) for name in "abcdez"] == [True, False, True, False, False, False]
    assert query.boolean("z", True)
    assert query.integer("n", 0) == -12
    assert query.all("x") == ["/", "2"]
    with pytest.raises(HttpError):
        query.integer("e", 0)
    with pytest.raises(HttpError):
        Query.parse("&".join(["a=1"] * 1000))


JSON, REGISTRY = "application/json", "application/vnd.schemaregistry.v1+json"


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, REGISTRY),
        ("*/*", REGISTRY),
        ("application/*;q=0.5", REGISTRY),
        (JSON, JSON),
        (f"{JSON}; q=0.4, {REGISTRY};q=0.9", REGISTRY),
        (f"{JSON}, */*;q=0.1", JSON),
        (f"{REGISTRY};q=0, */*", JSON),
        ("text/html", None),
        ("application/json;q=x", None),
    ],
)
def test_the_content_type_that_a_client_prefers(accept: str | None, chosen: str | None) -> None:
    assert negotiate(accept, (REGISTRY, JSON)) == chosen


@pytest.mark.parametrize(
    ("data", "depth"),
    [(b"1", 0), (b"[]", 1), (b'{"a":[1,{"b":2}]}', 3), (b'"[[["', 0), (b'["\\"[[", []]', 2), (b'["\\"[[[[', 1)],
)
def test_depth_of_json(data: bytes, depth: int) -> None:
    assert depth_of(data) == depth


def test_what_is_no_json_is_a_400() -> None:
    for data in (b"{", b"\xff", b"NaN", b"[" * 100_000, b"[" * 300 + b"]" * 300, b'"' + b'\\"' * 100_000):
        with pytest.raises(HttpError) as caught:
            parse_json(data)
        assert caught.value.status == 400
    assert json_response({"ü": [1, None]}).body == '{"ü":[1,null]}'.encode()


def test_half_a_character_in_an_answer_leaves_it_readable() -> None:
    """Its bytes were no UTF-8: one such name of a connector, and nobody could read the list of all."""
    body = json_response({"a": "half \ud800", "ü": 1}).body
    assert isinstance(body, bytes)
    assert json.loads(body.decode()) == {"a": "half \ud800", "ü": 1}
