"""Who is at the other end of a connection: TLS and logins of the broker's listeners, and of this broker at the
others.
"""
