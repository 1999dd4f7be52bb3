"""Members of groups, by the name of their client."""

from compat.support.members.aio import AiokafkaMember
from compat.support.members.base import (
    Got,
    Joining,
    Member,
    Place,
    ThreadMember,
    places,
    shared,
    until,
    until_shared,
)
from compat.support.members.confluent import ConfluentMember
from compat.support.members.headwater import HeadwaterMember
from compat.support.members.javamember import JavaMember
from compat.support.members.kafka_python import KafkaPythonMember
from compat.support.members.kcat import KcatMember

MEMBERS: dict[str, type[Member]] = {
    kind.name: kind
    for kind in (ConfluentMember, KafkaPythonMember, AiokafkaMember, KcatMember, JavaMember, HeadwaterMember)
}
OBEDIENT = sorted(set(MEMBERS) - {"kcat"})  # those that commit, seek and pause when told

__all__ = [
    "MEMBERS",
    "OBEDIENT",
    "ConfluentMember",
    "Got",
    "HeadwaterMember",
    "JavaMember",
    "Joining",
    "KcatMember",
    "Member",
    "Place",
    "ThreadMember",
    "places",
    "shared",
    "until",
    "until_shared",
]
