"""PostgresCdc: changes of PostgreSQL's tables by logical replication (pgoutput), in Debezium's envelope."""
