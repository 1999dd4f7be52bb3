"""Single message transforms and predicates: pure functions of a record, under the names that Kafka Connect has for
them.
"""
