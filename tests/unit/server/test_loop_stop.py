"""A SIGTERM right behind the ready line used to be lost: `run` forgot that `stop` had been called before it."""

from headwater.server.loop import Loop


def test_a_stop_before_the_run_ends_the_run():
    loop = Loop()
    try:
        loop.call_later(20_000, lambda: None)
        loop.stop()
        loop.run()  # returns, or the test's time is over
    finally:
        loop.close()
