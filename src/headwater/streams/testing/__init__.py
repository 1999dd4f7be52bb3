"""The test driver: the engine, stores in memory and a clock that the test advances. No broker, no JVM."""
