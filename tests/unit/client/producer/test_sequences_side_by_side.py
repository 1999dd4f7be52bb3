"""Numbers of batches while others of the producer fail: nothing is written twice, nothing stands still."""

from headwater.base.errors import ErrorCode
from unit.client.producer.producer_fakes import CLOSE, Rig

RETRIABLE = ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_batch_behind_one_whose_retries_are_over_is_not_written_twice() -> None:
    """Both were written, and the connection broke before the answer: the second came again in a new epoch."""
    rig = Rig(retries=1)
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [RETRIABLE]
    given_up = rig.send(b"second")
    rig.world.pass_time(0.01)
    rig.logs.after_answers = [CLOSE, CLOSE]
    delivery = rig.send(b"third")  # goes behind the retry, when its pause is over
    rig.flush()
    assert given_up.exception() is not None
    assert delivery.exception() is None
    last = rig.send(b"fourth")
    rig.flush()
    assert last.exception() is None
    assert rig.logs.values[0] == [b"first", b"second", b"third", b"fourth"]
