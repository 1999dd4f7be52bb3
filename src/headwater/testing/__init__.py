"""A real broker inside a test: `from headwater.testing import Broker; with Broker() as b:
connect(b.bootstrap_servers)`.
"""

from headwater.testing.broker import Broker

__all__ = ["Broker"]
