"""What a server knows of the others, and whom it sends away."""

import asyncio
import socket

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.admin.groups import GroupMember
from headwater.sql.server.peers import (
    REMEMBERED_MAX,
    Member,
    ServerName,
    Watch,
    answers_at,
    members_of,
    name_of_this,
)

_OWN = ServerName("10.0.0.1", 8088, "one", "aa")
_OTHER = ServerName("10.0.0.2", 8088, "two", "bb")


@pytest.mark.parametrize("name", [_OWN, ServerName("::1", 1, "a.b.example", "0f"), name_of_this("0.0.0.0", 8088)])
def test_a_name_says_where_and_on_which_machine(name: ServerName) -> None:
    assert ServerName.parse(str(name)) == name


@pytest.mark.parametrize("text", [None, "", "somebody", "host:80", "host:eighty@m.a", "@m.a", "host:80@m", "h:80@.a"])
def test_other_members_are_no_servers(text: str | None) -> None:
    assert ServerName.parse(text) is None


def test_a_server_is_sent_away_after_so_many_knocks_in_a_row() -> None:
    watch = Watch(_OWN, 3)
    members = [Member(_OWN, False), Member(_OTHER, True)]
    rounds = [(True, []), (False, []), (False, []), (True, []), (False, []), (False, []), (False, [_OTHER])]
    for now_ms, (answered, gone) in enumerate(rounds):
        assert watch.on_look(members, {_OTHER: answered}, now_ms) == gone
    assert watch.statuses()["10.0.0.2:8088"].alive is False
    assert watch.statuses()["10.0.0.2:8088"].updated_ms == 3  # when it answered for the last time
    assert watch.on_look([Member(_OWN, True)], {}, 9) == []
    assert [(name, each.alive, each.leads) for name, each in watch.statuses().items()] == [
        ("10.0.0.2:8088", False, False),
        ("10.0.0.1:8088", True, True),
    ]


def test_whom_this_one_succeeds_at_its_address_is_sent_away_at_once() -> None:
    before = _OWN._replace(life="00")
    elsewhere = before._replace(machine="two")
    watch = Watch(_OWN, 3)
    assert watch.on_look([Member(before, True), Member(elsewhere, False)], {}, 0) == [before]


def test_an_address_of_the_loopback_is_known_on_its_machine_only() -> None:
    loopback = ServerName("127.0.0.1", 8088, "one", "cc")
    assert _OWN.may_reach(loopback)
    assert not _OTHER.may_reach(loopback)
    assert not _OTHER.may_reach(loopback._replace(host="localhost"))
    assert _OTHER.may_reach(_OWN)


def test_servers_that_have_gone_are_remembered_up_to_a_number() -> None:
    watch = Watch(_OWN, 1)
    for number in range(REMEMBERED_MAX + 50):
        watch.on_look([Member(_OWN, True), Member(_OTHER._replace(port=number + 1), False)], {}, number)
    watch.on_look([Member(_OWN, True)], {}, 1_000)
    assert len(watch.hosts) == REMEMBERED_MAX + 1
    assert watch.hosts[_OWN].alive


class _Admin:
    def __init__(self, *members: GroupMember) -> None:
        self.members = list(members)

    async def describe_group(self, _group: str) -> "_Admin":
        return self


def test_who_is_to_get_the_queries_leads_when_no_other_has_them_any_more() -> None:
    place = TopicPartition("log", 0)
    new = GroupMember("m1", str(_OWN), "", "", [], 3, [place])
    old = GroupMember("m2", str(_OTHER), "", "", [place], 2, [])
    stranger = GroupMember("m3", None, "", "", [], 3, [])

    def found(*members: GroupMember) -> list[Member]:
        return asyncio.run(members_of(_Admin(*members), "g", place))  # type: ignore[arg-type]

    assert found(new, old, stranger) == [Member(_OWN, False), Member(_OTHER, True)]
    assert found(new, old._replace(assignment=[])) == [Member(_OWN, True), Member(_OTHER, False)]


def test_somebody_listens_or_nobody_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        name = ServerName("127.0.0.1", listening.getsockname()[1], "m", "l")
        assert asyncio.run(answers_at(name))
    assert not asyncio.run(answers_at(name))
