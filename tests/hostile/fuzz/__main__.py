"""`make fuzz`: the targets of hostile/support/targets.py, column_targets.py and schema_targets.py under atheris, which
follows what code the bytes reach.

    python -m hostile.fuzz requests build/fuzz/corpus/requests -max_total_time=600

What is found lies as crash-* in the working directory; the same command with that file instead of the corpus runs it
again. All behind the corpus are options of libFuzzer.
"""

import logging
import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["headwater"]):
    from headwater.broker.registry import APIS
    from hostile.support import column_targets, schema_targets
    from hostile.support.frames import Known, Maker, served, whole
    from hostile.support.targets import COMPILED, JAAS_SEEDS, SASL_SEEDS, Targets, seed_for
    from hostile.support.watched import watched

    for each in APIS.values():
        each.load()  # or its handler would be imported later, and not be followed

from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headwater.wire.registry import request_class

TOPICS = ["orders", "users"]
WITHOUT_BROKER = {
    "columns": (column_targets.columns, column_targets.seeds),
    "schemas": (schema_targets.schemas, schema_targets.seeds),
}


def write_seeds(target: str, directory: Path, topic_ids: list[bytes]) -> None:
    """A valid example of each kind, to begin with."""
    directory.mkdir(parents=True, exist_ok=True)
    if target in WITHOUT_BROKER:
        for number, seed in enumerate(WITHOUT_BROKER[target][1]()):
            (directory / f"seed-{number}").write_bytes(seed)
        return
    if target == "records":
        for codec in range(5):
            records = [Record(at, 1_700_000_000_000, b"k", bytes(at), (("h", b"v"),)) for at in range(5)]
            (directory / f"seed-{codec}").write_bytes(bytes(build_batch(records, codec=codec)))
        return
    if target in ("sasl", "jaas"):
        for number, seed in enumerate(SASL_SEEDS if target == "sasl" else JAAS_SEEDS):
            (directory / f"seed-{number}").write_bytes(seed)
        return
    keys = COMPILED if target == "compiled" else None
    known = Known(TOPICS, topic_ids, ["readers"], ["m1"])
    for key, version in served():
        if (keys is None or key in keys) and version >= request_class(key).VERSIONS[0]:
            for number in range(3):
                body = Maker(known, random.Random(number), mild=True).request(key, version)
                (directory / f"seed-{key}-{version}-{number}").write_bytes(seed_for(key, version, body, keys))


def main() -> None:
    target, corpus, *options = sys.argv[1:]
    if target in WITHOUT_BROKER:
        if not Path(corpus).is_file():
            write_seeds(target, Path(corpus), [])
        atheris.Setup([sys.argv[0], corpus, *options], WITHOUT_BROKER[target][0])
        atheris.Fuzz()
        return
    with tempfile.TemporaryDirectory() as directory, watched(Path(directory), num_partitions=2) as broker:
        logging.getLogger("headwater").setLevel(logging.ERROR)
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
        assert broker.send(whole(3, 9, b"".join(wanted.encode(9)))) is not None
        if not Path(corpus).is_file():
            write_seeds(target, Path(corpus), list(broker.node.broker.partitions_by_topic_id))
        atheris.Setup([sys.argv[0], corpus, *options], getattr(Targets(broker), target))
        atheris.Fuzz()


main()
