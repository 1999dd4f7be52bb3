"""MongoSink and MongoSource: documents of MongoDB's collections."""
