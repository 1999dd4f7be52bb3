"""The parser of requests: what it understands, what it refuses, and that the cuts between packets mean nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.web.limits import Limits
from headwater.web.messages import HttpError, Request
from headwater.web.parser import RequestParser, origin_form, split_target

SMALL = Limits(head_bytes_max=300, header_fields_max=5, body_bytes_max=50)


def parse(data: bytes, limits: Limits = SMALL) -> list[Request]:
    parser = RequestParser(limits)
    parser.feed(data)
    return drain(parser)


def drain(parser: RequestParser) -> list[Request]:
    requests = []
    while (request := parser.next_request()) is not None:
        requests.append(request)
    return requests


def get(target: str = "/", *lines: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: a", *lines, "", ""]).encode()


def test_a_request_and_its_parts() -> None:
    (request,) = parse(b"POST /a/b?x=1&y=2&x=3 HTTP/1.1\r\nHost: a\r\nX-One:  two \r\nContent-Length: 3\r\n\r\nabc")
    assert (request.method, request.segments, request.body) == ("POST", ("a", "b"), b"abc")
    assert request.query.all("x") == ["1", "3"]
    assert request.headers.get("x-ONE") == "two"
    assert request.keeps_alive


def test_requests_behind_each_other_come_in_their_order() -> None:
    data = get("/1") + b"\r\n" + b"PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi" + get("/3")
    assert [(each.segments, each.body) for each in parse(data)] == [(("1",), b""), (("2",), b"hi"), (("3",), b"")]


def test_chunks_are_put_together_and_trailers_dropped() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"3;name=value\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: 1\r\n\r\n"
    first, second = parse(head + chunks + get("/next"))
    assert first.body == b"abcde"
    assert second.segments == ("next",)


@pytest.mark.parametrize(
    ("target", "segments"),
    [
        ("/", ()),
        ("/subjects/", ("subjects",)),
        ("/subjects/a%2Fb/versions", ("subjects", "a/b", "versions")),
        ("/subjects/%3A.ctx%3As/x", ("subjects", ":.ctx:s", "x")),
        ("/a//b", ("a", "", "b")),
        ("/a+b/%C3%BC", ("a+b", "ü")),
        ("http://host:80/a/b?c=d", ("a", "b")),
        ("HTTPS://host/a", ("a",)),
        ("http://host", ()),
        ("http://host?a=/b", ()),
        ("*", ("*",)),
        ("/..%2f../x", ("../..", "x")),
    ],
)
def test_paths_are_split_before_they_are_decoded(target: str, segments: tuple[str, ...]) -> None:
    assert split_target(target)[0] == segments


@pytest.mark.parametrize(
    ("target", "path_and_query"),
    [
        ("/a%2Fb?c=d", "/a%2Fb?c=d"),
        ("http://host:80/a%2Fb?c=http://d/", "/a%2Fb?c=http://d/"),
        ("http://host?a=/b", "/?a=/b"),
        ("https://host", "/"),
        ("*", "*"),
    ],
)
def test_a_target_that_names_a_server_has_a_path_and_a_query(target: str, path_and_query: str) -> None:
    assert origin_form(target) == path_and_query


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no host
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),  # TLS to a plain port
        (b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /%ff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET nothing HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 40 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 51\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", 417),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 51, 413),
        (b"GET /" + b"a" * 400, 431),
        (get("/", *[f"X{n}: 1" for n in range(9)]), 431),
    ],
)
def test_what_is_no_request_is_refused_and_nothing_after_it_is_read(data: bytes, status: int) -> None:
    parser = RequestParser(SMALL)
    parser.feed(data)
    with pytest.raises(HttpError) as caught:
        drain(parser)
    assert caught.value.status == status
    parser.feed(get("/smuggled"))
    assert parser.next_request() is None


def test_a_client_that_waits_for_continue_is_told_once() -> None:
    parser = RequestParser(SMALL)
    parser.feed(b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    assert parser.next_request() is None
    assert parser.take_continue()
    assert not parser.take_continue()
    parser.feed(b"ab")
    assert [request.body for request in drain(parser)] == [b"ab"]


@pytest.mark.parametrize(
    ("line", "keeps"), [("HTTP/1.1", True), ("HTTP/1.1\r\nConnection: Close", False), ("HTTP/1.0", False)]
)
def test_who_keeps_the_connection(line: str, keeps: bool) -> None:
    (request,) = parse(f"GET / {line}\r\nHost: a\r\n\r\n".encode())
    assert request.keeps_alive is keeps


_TOKENS = st.text(alphabet="abcXYZ09-_", min_size=1, max_size=6)


@st.composite
def _requests(draw: st.DrawFn) -> bytes:
    method = draw(st.sampled_from(["GET", "PUT", "POST", "DELETE"]))
    path = "/" + "/".join(draw(st.lists(_TOKENS, max_size=3)))
    body = draw(st.binary(max_size=30))
    lines = [f"{method} {path} HTTP/1.1", "Host: a"]
    lines += [f"X-{draw(_TOKENS)}: {draw(_TOKENS)}" for _ in range(draw(st.integers(0, 2)))]
    if not draw(st.booleans()):
        return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body
    data = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()
    while body:
        size = draw(st.integers(1, len(body)))
        data += b"%x\r\n%b\r\n" % (size, body[:size])
        body = body[size:]
    return data + b"0\r\n" + draw(st.sampled_from([b"", b"T: 1\r\n"])) + b"\r\n"


@given(st.lists(_requests(), min_size=1, max_size=4), st.data())
def test_any_split_of_the_bytes_gives_the_same_requests(parts: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(parts)
    expected = parse(whole)
    assert len(expected) == len(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    assert _in_pieces(whole, cuts) == expected
    assert _in_pieces(whole, list(range(len(whole)))) == expected


@given(st.binary(max_size=200), st.data())
def test_any_bytes_end_the_same_way_however_they_are_split(tail: bytes, data: st.DataObject) -> None:
    whole = data.draw(_requests()) + tail
    assert _outcome([whole]) == _outcome([whole[n : n + 1] for n in range(len(whole))])


def _in_pieces(whole: bytes, cuts: list[int]) -> list[Request]:
    parser, requests = RequestParser(SMALL), []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        parser.feed(whole[start:end])
        requests += drain(parser)
    return requests


def _outcome(pieces: list[bytes]) -> list[object]:
    parser, seen = RequestParser(SMALL), list[object]()
    for piece in pieces:
        parser.feed(piece)
        try:
            while (request := parser.next_request()) is not None:
                seen.append(request)
        except HttpError as error:
            return [*seen, error.status]
    return seen
