"""Whoever is asked: a write that a follower forwards has the answer that the leader itself would have given.

One script of writes, good and bad, with reads between them, is played at a registry that leads and at one that only
forwards; each has a topic of its own, so that ids and versions are the same in both. Status, headers and bodies must be
equal at each step. A read follows its write at once: what was forwarded has been read by who forwarded it.
"""

import http.client
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from compat.support.broker import BrokerProcess
from compat.support.registry import Registry

JSON = "application/json"
V1 = "application/vnd.schemaregistry.v1+json"
_OF_THE_MOMENT = re.compile(rb'"ts":\d+')


@dataclass(frozen=True)
class Step:
    """`document` is sent as JSON; as it is where it is bytes; in chunks where it is a list of bytes. A header may come
    twice.
    """

    method: str
    target: str
    document: Any = None
    headers: tuple[tuple[str, str], ...] = (("Content-Type", JSON),)

    def __str__(self) -> str:
        return f"{self.method} {self.target} {self.document!r:.100} {self.headers}"


@dataclass(frozen=True)
class Heard:
    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


def play(registry: Registry, step: Step) -> Heard:
    connection = http.client.HTTPConnection(urlsplit(registry.url).netloc, timeout=60)
    try:
        connection.putrequest(step.method, step.target.replace("http://REGISTRY", registry.url))
        for name, value in step.headers:
            connection.putheader(name, value)
        chunks = step.document if isinstance(step.document, list) else None
        if chunks is not None:
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders(chunks, encode_chunked=True)
        else:
            body = step.document if isinstance(step.document, bytes) else json.dumps(step.document).encode()
            body = b"" if step.document is None else body
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    headers = sorted((name.lower(), value) for name, value in answer.getheaders() if name.lower() != "date")
    return Heard(answer.status, headers, _OF_THE_MOMENT.sub(b'"ts":0', data))


def avro(name: str, *fields: str) -> dict[str, Any]:
    """Two spaces, and the attributes in another order than the canonical one."""
    described = [{"type": "string", "name": each, "default": ""} for each in fields]
    return {"schema": json.dumps({"name": name, "type": "record", "fields": described}, separators=(" , ", ": "))}


PROTO = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message  M { string a = 1; }'}
USER = avro("User", "name")
TAG = [{"schemaEntity": {"entityPath": "User.name", "entityType": "sr_field"}, "tags": ["PII"]}]
RULE = {"name": "r", "kind": "TRANSFORM", "mode": "WRITEREAD", "type": "ENCRYPT", "tags": ["PII"]}
BROKEN = [b"", b"{", b"[]", b"7", b"null", b'{"schema":', b"\xff", b"[" * 300]


def registering() -> list[Step]:
    path = "/subjects/users-value/versions"
    qualified = avro("Other", "name")
    refers = {
        "schema": '{"type":"record","name":"Holder","fields":[{"name":"user","type":"User"}]}',
        "references": [{"name": "User", "subject": "users-value", "version": -1}],
    }
    return [
        Step("POST", path, USER),
        Step("POST", path, USER),
        Step("GET", "/subjects/users-value/versions/1"),
        Step("POST", f"{path}?normalize=True", avro("User", "name", "mail")),
        Step("POST", f"{path}?normalize=false&force=false", avro("User", "name", "mail", "phone")),
        Step("GET", path),
        Step("POST", path, {"schema": '"int"'}),  # 409
        Step("POST", f"{path}?force=true", {"schema": '"int"'}),
        Step("GET", path),
        Step("POST", "/subjects/holders/versions?format=resolved", refers),
        Step("POST", "/subjects/protos/versions?format=serialized", PROTO),
        Step("POST", "/subjects/protos/versions?format=serialized", PROTO),
        Step("POST", "/subjects/protos-2/versions?format=ignore_extensions", PROTO),
        Step("POST", "/subjects/ruled/versions", {**qualified, "ruleSet": {"domainRules": [RULE]}}),
        Step("POST", "/subjects/ruled/versions", {**qualified, "ruleSet": {"domainRules": [RULE, RULE]}}),
        Step("POST", "/subjects/ruled/versions", {"metadata": {"properties": {"owner": "me"}}}),  # the text before
        Step("GET", "/subjects/ruled/versions/2"),
        Step("POST", "/subjects/tagged/versions", {**USER, "schemaTagsToAdd": TAG}),
        Step("POST", "/subjects/tagged/versions/1/tags", {"tagsToAdd": TAG, "newVersion": 2}),
        Step("POST", "/subjects/tagged/versions/latest/tags", {"tagsToRemove": TAG, "rulesToMerge": {}}),
        Step("POST", "/subjects/tagged/versions/9/tags", {"tagsToAdd": TAG}),
        Step("GET", "/subjects/tagged/versions/latest"),
        Step("POST", path, {**USER, "id": 1000}),  # not in import mode
        Step("POST", path, {**USER, "version": 77}),
        Step("POST", path, {"schema": ""}),
        Step("POST", path, {"schema": "no schema"}),
        Step("POST", path, {"schema": USER["schema"], "schemaType": "XML"}),
        Step("POST", path, {"schema": '"' + "x" * 1_100_000 + '"'}),
        Step("POST", "/subjects/%20/versions", USER),
        *(Step("POST", path, each) for each in BROKEN),
    ]


def addressing() -> list[Step]:
    """The target as proxies write it, and names that are written with escapes."""
    names = ["a%2Fb", "%C3%BC%20x", "100%25", "a+b", "q%3Fr%26s%3Dt", "semi;colon", "a:b", "%E6%97%A5"]
    steps = []
    for number, name in enumerate(names):
        for target in (f"/subjects/{name}/versions", f"http://REGISTRY/subjects/{name}/versions"):
            steps += [Step("POST", target, avro(f"N{number}", target[0])), Step("GET", target)]
        steps.append(Step("DELETE", f"http://REGISTRY/subjects/{name}/versions/1?permanent=False"))
        steps.append(Step("DELETE", f"http://REGISTRY/subjects/{name}?permanent=False"))
    return [
        *steps,
        Step("GET", "/subjects?deleted=true"),
        Step("PUT", "http://REGISTRY/config/abs?x=%2F", {"compatibility": "FULL"}),
        Step("GET", "http://REGISTRY/config/abs"),
        Step("DELETE", "http://REGISTRY/config/abs"),
        Step("PUT", "http://REGISTRY/mode/abs?force=true", {"mode": "IMPORT"}),
        Step("DELETE", "http://REGISTRY/mode/abs"),
        Step("POST", "http://elsewhere.example:99/subjects/elsewhere/versions?normalize=true", USER),
        Step("POST", "/contexts/.abs/subjects/s/versions", USER),
        Step("POST", "http://REGISTRY/contexts/.abs/subjects/s/versions", avro("User", "name", "x")),
        Step("GET", "/contexts/.abs/subjects/s/versions"),
        Step("POST", "/subjects/slash/versions/", USER),
        Step("POST", "/subjects//versions", USER),
        Step("POST", "/subjects/bad%ZZ/versions", USER),
        Step("POST", "/subjects/bad%FF/versions", USER),
    ]


def settings() -> list[Step]:
    return [
        Step("PUT", "/config", {"compatibility": "full"}),
        Step("GET", "/config"),
        Step("PUT", "/config", {"compatibility": "sideways"}),
        Step("PUT", "/config", {"compatibility": "BACKWARD", "normalize": "yes"}),
        Step("PUT", "/config", b"{"),
        Step("PUT", "/config/c1", {"compatibility": "NONE", "normalize": True, "validateFields": True}),
        Step("GET", "/config/c1"),
        Step("PUT", "/config/c1", {"normalize": None}),
        Step("GET", "/config/c1?defaultToGlobal=true"),
        Step("DELETE", "/config/c1"),
        Step("DELETE", "/config/c1"),
        Step("DELETE", "/config"),
        Step("GET", "/config"),
        Step("PUT", "/config/alias", {"alias": "meant"}),
        Step("POST", "/subjects/alias/versions", USER),
        Step("GET", "/subjects/meant/versions"),
        Step("DELETE", "/subjects/alias"),
        Step("GET", "/subjects/meant/versions"),
        Step("PUT", "/config/:.cfg:", {"compatibility": "FORWARD"}),
        Step("PUT", "/contexts/.cfg/config", {"compatibility": "FULL"}),
        Step("GET", "/contexts/.cfg/config"),
        Step("DELETE", "/contexts/.cfg/config"),
        Step("PUT", "/mode", {"mode": "sleeping"}),
        Step("PUT", "/mode", {"mode": "READONLY"}),
        Step("GET", "/mode"),
        Step("POST", "/subjects/readonly/versions", USER),
        Step("PUT", "/config/readonly", {"compatibility": "NONE"}),
        Step("DELETE", "/subjects/meant?permanent=true"),
        Step("DELETE", "/mode"),
        Step("PUT", "/mode/imported", {"mode": "IMPORT"}),
        Step("POST", "/subjects/imported/versions", {**avro("I", "x"), "id": 5000, "version": 3}),
        Step("POST", "/subjects/imported/versions", {**avro("I", "y"), "id": 5000, "version": 4}),
        Step("POST", "/subjects/imported/versions", avro("I", "z")),
        Step("GET", "/subjects/imported/versions/3"),
        Step("PUT", "/mode/imported", {"mode": "READWRITE"}),
        Step("PUT", "/mode/imported", {"mode": "IMPORT"}),  # not empty
        Step("PUT", "/mode/imported?force=true", {"mode": "IMPORT"}),
        Step("PUT", "/mode/imported", {"mode": None}),
        Step("DELETE", "/mode/imported"),
        Step("PUT", "/mode/:.m:s", {"mode": "READONLY"}),
        Step("DELETE", "/mode/:.m:?recursive=true"),
        Step("GET", "/mode/:.m:s"),
        Step("PUT", "/mode/s", {"mode": "FORWARD"}),
    ]


def deleting() -> list[Step]:
    one, two = avro("D", "x"), avro("D", "x", "y")
    refers = {
        "schema": '{"type":"record","name":"H","fields":[{"name":"d","type":"D"}]}',
        "references": [{"name": "D", "subject": "d", "version": 1}],
    }
    return [
        Step("POST", "/subjects/d/versions", one),
        Step("POST", "/subjects/d/versions", two),
        Step("POST", "/subjects/refers/versions", refers),
        Step("DELETE", "/subjects/d/versions/1"),  # is referred to
        Step("DELETE", "/subjects/d"),
        Step("DELETE", "/subjects/refers"),
        Step("DELETE", "/subjects/refers?permanent=true"),
        Step("DELETE", "/subjects/refers?permanent=true"),
        Step("DELETE", "/subjects/d/versions/2?permanent=true"),  # not deleted softly yet
        Step("DELETE", "/subjects/d/versions/latest"),
        Step("GET", "/subjects/d/versions?deleted=true"),
        Step("DELETE", "/subjects/d/versions/2"),
        Step("DELETE", "/subjects/d/versions/2?permanent=TRUE"),
        Step("GET", "/subjects/d/versions?deleted=true"),
        Step("DELETE", "/subjects/d/versions/9"),
        Step("DELETE", "/subjects/d/versions/none"),
        Step("DELETE", "/subjects/d"),
        Step("DELETE", "/subjects/d"),
        Step("DELETE", "/subjects/d?permanent=true"),
        Step("GET", "/subjects/d/versions?deleted=true"),
        Step("DELETE", "/subjects/never"),
        Step("POST", "/contexts/.gone/subjects/s/versions", one),
        Step("DELETE", "/contexts/.gone"),  # not empty
        Step("DELETE", "/contexts/.gone/subjects/s"),
        Step("DELETE", "/contexts/.gone/subjects/s?permanent=true"),
        Step("DELETE", "/contexts/.gone"),
        Step("DELETE", "/contexts/.gone"),
        Step("GET", "/contexts"),
    ]


def headers_and_methods() -> list[Step]:
    path = "/subjects/h/versions"

    def sent(number: int, *headers: tuple[str, str], document: Any = None) -> Step:
        return Step("POST", path, document or avro("H", *"abcdefghijklmnop"[:number]), headers)

    return [
        sent(1),
        sent(2, ("Content-Type", V1), ("Accept", V1)),
        sent(3, ("Content-Type", JSON), ("Accept", "application/json, */*;q=0.5")),
        sent(4, ("Content-Type", JSON), ("Accept", JSON), ("Accept", V1)),
        sent(5, ("Content-Type", JSON), ("Accept", "text/html")),
        sent(6, ("Content-Type", "text/plain")),
        sent(7, ("Content-Type", "application/octet-stream"), ("Accept", "application/vnd.schemaregistry+json")),
        sent(8, ("Content-Type", JSON), ("Origin", "http://page.example")),
        sent(9, ("Content-Type", JSON), ("Authorization", "Basic bm9ib2R5Og==")),
        sent(9, ("Content-Type", "application/json; charset=utf-8")),
        sent(10, ("Content-Type", JSON), document=[b'{"schema":', b'"\\"int\\""', b"}"]),
        sent(11, ("Content-Type", JSON), ("X-Registry", "any"), ("Cookie", "a=b")),
        Step("PUT", "/config/h", {"compatibility": "NONE"}, (("Content-Type", JSON), ("Accept", JSON), ("Accept", V1))),
        sent(0, ("Content-Type", JSON), document={"schema": '"string"'}),
        Step("PATCH", "/config/h", {"compatibility": "FULL"}),
        Step("POST", "/mode", {"mode": "READONLY"}),
        Step("PUT", path, USER),
        Step("DELETE", path),
        Step("OPTIONS", path),
        Step("POST", "/compatibility/subjects/h/versions/latest?verbose=true", {"schema": '"int"'}),
        Step("POST", "/compatibility/subjects/h/versions", {"schema": '"int"'}),
        Step("PUT", "/config/h", {"compatibility": "FULL_TRANSITIVE"}),
        Step("POST", "/compatibility/subjects/h/versions?verbose=True&normalize=true", {"schema": '"int"'}),
        Step("POST", "/compatibility/subjects/h/versions/99", {"schema": '"int"'}),
        Step("POST", "/associations", {"resourceName": "t"}),
        Step("POST", "/associations:batchMutate", {"requests": []}),
        Step("PUT", "/associations/resources/t", {}),
        Step("DELETE", "/associations/resources/t"),
        Step("DELETE", "/schemas/ids/1"),
    ]


def test_a_follower_answers_as_the_leader_does(group_broker: BrokerProcess, topic: str) -> None:
    def chosen(group: str) -> dict[str, object]:
        return {"kafkastore_topic": f"_{topic}-{group}", "schema_registry_group_id": f"{topic}-{group}"}

    script = [*registering(), *addressing(), *settings(), *deleting(), *headers_and_methods()]
    with (
        Registry(group_broker.bootstrap, **chosen("asked")) as leader,
        Registry(group_broker.bootstrap, **chosen("forwarded")) as behind,
        Registry(group_broker.bootstrap, **chosen("forwarded"), leader_eligibility="false") as follower,
    ):
        for step in script:
            assert play(follower, step) == play(leader, step), str(step)
        for target in ("/subjects?deleted=true", "/schemas?deleted=true", "/config", "/mode", "/contexts"):
            heard = [play(each, Step("GET", target)) for each in (leader, behind, follower)]
            assert heard[0] == heard[1] == heard[2]
