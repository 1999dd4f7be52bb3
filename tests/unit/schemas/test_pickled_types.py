"""Schemas travel to other processes with what uses them: a field without a default has none there either."""

import pickle

from headwater.schemas.avro.types import NO_DEFAULT


def test_the_absence_of_a_default_stays_itself() -> None:
    assert pickle.loads(pickle.dumps(NO_DEFAULT)) is NO_DEFAULT
