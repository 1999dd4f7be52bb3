"""The tables of `kafka-consumer-groups --describe`: offsets, members, state."""

import sys
from typing import TYPE_CHECKING, Final

from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import Options

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.admin.groups import GroupDescription, GroupMember

_NOTHING: Final = "-"


def describe(admin: "Admin", groups: list[str], options: Options) -> None:
    """All groups are asked before anything is printed: one that is not there is an error for all, as in Kafka's
    tool.
    """

    descriptions = [admin.describe_group(group) for group in sorted(groups)]
    verbose = "verbose" in options
    for description in descriptions:
        _announce(description)
        if "members" in options:
            _members(description, verbose)
        elif "state" in options:
            _state(description, verbose)
        else:
            _offsets(admin, description, verbose)


def _announce(description: "GroupDescription") -> None:
    if description.state == "Empty":
        sys.stderr.write(f"\nConsumer group '{description.group_id}' has no active members.\n")
    elif description.state != "Stable":
        sys.stderr.write(f"\nWarning: Consumer group '{description.group_id}' is rebalancing.\n")


def _text(value: object) -> str:
    return _NOTHING if value is None else str(value)


def _wide(least: int, values: list[str]) -> int:
    return max([least, *(len(value) for value in values)])


def _print(columns: list[tuple[str, int, list[str]]]) -> None:
    """A blank line, the heads, the rows. A width of 0 leaves a column as it is; the last row ends the table."""
    rows = len(columns[0][2])
    lines = []
    for at in range(-1, rows):
        cells = [name if at < 0 else values[at] for name, _, values in columns]
        lines.append(" ".join(f"{cell:<{width}}" for cell, (_, width, _) in zip(cells, columns, strict=True)))
    sys.stdout.write("\n" + "".join(f"{line}\n" for line in lines))


def _offsets(admin: "Admin", description: "GroupDescription", verbose: bool) -> None:
    from headwater.cli.group_offsets import offset_rows

    rows = offset_rows(admin, description)
    if not rows:
        return

    def column(name: str, least: int, values: list[object], *, fixed: bool = False) -> tuple[str, int, list[str]]:
        texts = [_text(value) for value in values]
        return name, least if fixed else _wide(least, texts), texts

    columns = [
        column("GROUP", 15, [description.group_id for _ in rows]),
        column("TOPIC", 15, [row.topic for row in rows]),
        column("PARTITION", 10, [row.partition for row in rows], fixed=True),
    ]
    if verbose:
        columns.append(column("LEADER-EPOCH", 15, [row.leader_epoch for row in rows], fixed=True))
    columns += [
        column("CURRENT-OFFSET", 15, [row.current_offset for row in rows], fixed=True),
        column("LOG-END-OFFSET", 15, [row.log_end_offset for row in rows], fixed=True),
        column("LAG", 15, [row.lag for row in rows], fixed=True),
        column("CONSUMER-ID", 15, [row.member_id for row in rows]),
        column("HOST", 15, [row.host for row in rows]),
        column("CLIENT-ID", 0, [row.client_id for row in rows], fixed=True),
    ]
    _print(columns)


def _members(description: "GroupDescription", verbose: bool) -> None:
    members = description.members

    def column(name: str, least: int, values: list[str]) -> tuple[str, int, list[str]]:
        return name, _wide(least, values), values

    columns = [
        column("GROUP", 15, [description.group_id for _ in members]),
        column("CONSUMER-ID", 15, [member.member_id for member in members]),
    ]
    if any(member.instance_id for member in members):
        columns.append(column("GROUP-INSTANCE-ID", 17, [member.instance_id or "" for member in members]))
    columns += [
        column("HOST", 15, [member.host for member in members]),
        column("CLIENT-ID", 15, [member.client_id for member in members]),
        ("#PARTITIONS", 15, [str(len(member.assignment)) for member in members]),
    ]
    if verbose:
        columns += _verbose_members(description, members)
    else:
        columns.append(("", 0, ["" for _ in members]))  # each line of this table ends with a blank
    _print(columns)


def _verbose_members(description: "GroupDescription", members: "list[GroupMember]") -> list[tuple[str, int, list[str]]]:
    current = [assignment_text(member.assignment) for member in members]
    target = [_NOTHING if member.target is None else assignment_text(member.target) for member in members]
    target_epoch = _text(description.target_epoch)
    return [
        ("CURRENT-EPOCH", 15, [_text(member.epoch) for member in members]),
        ("CURRENT-ASSIGNMENT", _wide(20, current), current),
        ("TARGET-EPOCH", 15, [target_epoch for _ in members]),
        ("TARGET-ASSIGNMENT", _wide(20, target), target),
    ]


def assignment_text(partitions: list[TopicPartition]) -> str:
    """`orders:0,1;refunds:3`, or a dash."""
    topics: dict[str, list[int]] = {}
    for each in sorted(partitions):
        topics.setdefault(each.topic, []).append(each.partition)
    return ";".join(f"{topic}:{','.join(map(str, topics[topic]))}" for topic in topics) or _NOTHING


def _state(description: "GroupDescription", verbose: bool) -> None:
    coordinator = description.coordinator
    address = f"{coordinator.host}:{coordinator.port}  ({coordinator.id})"
    columns = [
        ("GROUP", _wide(15, [description.group_id]), [description.group_id]),
        ("COORDINATOR (ID)", _wide(25, [address]), [address]),
        ("ASSIGNMENT-STRATEGY", 20, [description.assignor or _NOTHING]),
        ("STATE", 20, [description.state]),
    ]
    if verbose:
        columns += [
            ("GROUP-EPOCH", 15, [_text(description.epoch)]),
            ("TARGET-ASSIGNMENT-EPOCH", 25, [_text(description.target_epoch)]),
        ]
    _print([*columns, ("#MEMBERS", 0, [str(len(description.members))])])
