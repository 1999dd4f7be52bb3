"""Tags of Protobuf's messages and fields: `tags` of the options `(confluent.message_meta)` and
`(confluent.field_meta)`. Pure.

A message is named by its path in the file, with or without the package; a field of a oneof also with the oneof between.
"""

from collections.abc import Iterator
from typing import Final

from headwater.schemas.protobuf.parser import parse_file
from headwater.schemas.protobuf.printer import print_file
from headwater.schemas.protobuf.text_format import TextField, parse_text_format, print_text_format
from headwater.schemas.protobuf.types import File, Import, Message, Option, Value
from headwater.schemas.tag_entities import Entity, EntityType, PathBudget, Tags, changed, not_there

_META: Final = {EntityType.RECORD: "confluent.message_meta", EntityType.FIELD: "confluent.field_meta"}
_META_FILE: Final = "confluent/meta.proto"


def protobuf_tags(text: str) -> dict[Entity, list[str]]:
    found = {entity: _tags(options, _META[entity.type]) for entity, options in _entities(parse_file(text))}
    return {entity: tags for entity, tags in found.items() if tags}


def protobuf_with_tags(text: str, add: Tags, remove: Tags) -> str:
    file = parse_file(text)
    known = dict(_entities(file, with_oneofs=True))
    package = f"{file.package}." if file.package else ""
    for entity in dict.fromkeys([*add, *remove]):
        path = entity.path.removeprefix(".")
        options = known.get(Entity(path, entity.type))
        if options is None and package:
            options = known.get(Entity(path.removeprefix(package), entity.type))
        if options is None:
            raise not_there(entity)
        meta = _META[entity.type]
        _set_tags(options, meta, changed(_tags(options, meta), add.get(entity, ()), remove.get(entity, ())))
    if add and all(each.path != _META_FILE for each in file.imports):
        file.imports.append(Import(_META_FILE))
    return print_file(file)


def _entities(file: File, *, with_oneofs: bool = False) -> Iterator[tuple[Entity, list[Option]]]:
    budget = PathBudget()
    pending: list[tuple[Message, str]] = [(each, "") for each in reversed(file.messages)]
    while pending:
        message, scope = pending.pop()
        path = scope + message.name
        yield budget.entity(path, EntityType.RECORD), message.options
        for each in message.fields:
            yield budget.entity(f"{path}.{each.name}", EntityType.FIELD), each.options
            if with_oneofs and each.oneof:
                yield budget.entity(f"{path}.{each.oneof}.{each.name}", EntityType.FIELD), each.options
        pending += [(inner, f"{path}.") for inner in reversed(message.messages)]


def _is_meta(option: Option, meta: str) -> bool:
    return option.name in (f"({meta})", f"(.{meta})")


def _is_tag(option: Option, meta: str) -> bool:
    return option.name in (f"({meta}).tags", f"(.{meta}).tags")


def _tags(options: list[Option], meta: str) -> list[str]:
    """Written as one value, or one by one."""
    found: list[str] = []
    for option in options:
        if _is_tag(option, meta):
            found.append(option.value.text)
        elif _is_meta(option, meta) and option.value.kind == "aggregate":
            fields = parse_text_format(option.value.text)
            found += [each.value.text for each in fields if each.name == "tags" and isinstance(each.value, Value)]
    return list(dict.fromkeys(found))


def _set_tags(options: list[Option], meta: str, tags: list[str]) -> None:
    """Other parts of the option stay. protoc refuses one that is set as a whole and part by part."""
    others: tuple[TextField, ...] = ()
    for option in options:
        if _is_meta(option, meta) and option.value.kind == "aggregate":
            others += tuple(each for each in parse_text_format(option.value.text) if each.name != "tags")
    kept = [each for each in options if not _is_meta(each, meta) and not _is_tag(each, meta)]
    values = [Value("string", each, each.encode()) for each in tags]
    if any(each.name.startswith((f"({meta}).", f"(.{meta}).")) for each in kept):
        kept += [Option(f"({meta}).tags", each) for each in values]
    else:
        whole = (*others, *(TextField("tags", each) for each in values))
        if whole:
            kept.append(Option(f"({meta})", Value("aggregate", print_text_format(whole))))
    options[:] = kept
