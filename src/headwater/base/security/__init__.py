"""What both ends of a secured connection need, without a socket: SASL's mechanisms, JAAS, key stores, TLS contexts,
names of principals.
"""
