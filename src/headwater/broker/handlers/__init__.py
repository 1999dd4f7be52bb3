"""One file per API, named as in wire/messages. Each has `handle(broker, context, request)`, giving a response or a
Deferred.
"""
