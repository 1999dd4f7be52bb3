"""SparkSource and SparkSink: whatever Spark can read or write."""
