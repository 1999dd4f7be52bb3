"""The SQL server: ksqlDB's REST API over a log of statements, the queries that they start, and queries that answer at
once.
"""
