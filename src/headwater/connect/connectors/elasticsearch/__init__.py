"""ElasticsearchSink: records as documents of Elasticsearch's or OpenSearch's indices."""
