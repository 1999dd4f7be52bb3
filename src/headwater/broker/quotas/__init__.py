"""Quotas: how much users, clients and addresses may do, and for how long they have to wait when it was more."""
