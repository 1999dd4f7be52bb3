"""The schema registry: Confluent's REST API over the compacted topic `_schemas`. It sees the brokers as any client
does.
"""
