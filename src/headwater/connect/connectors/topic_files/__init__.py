"""TopicFiles: the records of topics as files whose names say which offsets they hold."""
