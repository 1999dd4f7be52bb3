"""CassandraSink: records as rows of Apache Cassandra's tables."""
