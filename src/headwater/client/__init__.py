"""Speaking to a cluster from the outside: addresses, connections, routing, admin calls, producing and fetching.

Works against any broker that speaks the Kafka protocol. Stands on `wire` and `records` only, never on the broker wing.
"""
