"""Producers of a cluster: the same as for one broker, with the errors that pass when leaders and in-sync replicas
change.
"""

from typing import Final

from headwater.base.errors import ErrorCode
from headwater.sim.clients.producer import IdempotentProducer, PlainProducer
from headwater.sim.cluster_clients.routed import OUT_OF_DATE, RoutedClient

_MAY_PASS: Final = OUT_OF_DATE | {
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}


class ClusterIdempotentProducer(RoutedClient, IdempotentProducer):
    def may_retry(self, code: int) -> bool:
        return code in _MAY_PASS or super().may_retry(code)


class ClusterPlainProducer(RoutedClient, PlainProducer):
    pass
