"""Scripts shaped like Kafka's own, for people and test suites that type them: the same flags, columns, messages, exit
codes.

One module a script, each with `main`. They speak through `headwater.client`, so they work against any broker, and start
without click. Where Kafka prints a Java traceback, the sentence that it begins with is all that is printed here.
"""
