"""The transactional ids of an application: one for each slot, and the lead's own."""


def slot_id(application_id: str, number: int) -> str:
    return f"{application_id}-slot-{number}"


def lead_id(application_id: str) -> str:
    return f"{application_id}-lead"
