"""Slots: long-lived tasks of a Spark query, each with a connection to a lead in the driver. What Streams and Connect
have in common.

`frames` and `message_codec` are how the two speak, `slot_links` is the lead's port, `slot_supply` the query; the last
alone knows PySpark.
"""
