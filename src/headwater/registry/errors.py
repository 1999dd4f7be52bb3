"""The registry's errors, with Confluent's numbers and sentences: clients and people know them."""

from headwater.web.messages import HttpError


def subject_not_found(subject: str) -> HttpError:
    return HttpError(404, f"Subject '{subject}' not found.", 40401)


def version_not_found(version: int | str) -> HttpError:
    return HttpError(404, f"Version {version} not found.", 40402)


def schema_not_found(which: int | str | None = None) -> HttpError:
    return HttpError(404, "Schema not found" if which is None else f"Schema {which} not found", 40403)


def subject_soft_deleted(subject: str) -> HttpError:
    return HttpError(404, f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently", 40404)


def subject_not_soft_deleted(subject: str) -> HttpError:
    return HttpError(404, f"Subject '{subject}' was not deleted first before being permanently deleted", 40405)


def version_soft_deleted(subject: str, version: int) -> HttpError:
    text = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
    return HttpError(404, text, 40406)


def version_not_soft_deleted(subject: str, version: int) -> HttpError:
    text = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return HttpError(404, text, 40407)


def compatibility_not_configured(subject: str) -> HttpError:
    return HttpError(404, f"Subject '{subject}' does not have subject-level compatibility configured", 40408)


def mode_not_configured(subject: str) -> HttpError:
    return HttpError(404, f"Subject '{subject}' does not have subject-level mode configured", 40409)


def association_not_found(resource: str) -> HttpError:
    return HttpError(404, f"Association for '{resource}' not found.", 40410)


def no_associations() -> HttpError:
    text = "Associations are not kept here: a serializer finds its subject by its subject name strategy."
    return HttpError(404, text, 40410)


def incompatible(subject: str, messages: list[str]) -> HttpError:
    details = ", ".join(messages)
    text = (
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: [{details}]'
    )
    return HttpError(409, text, 40901)


def invalid_schema(why: str) -> HttpError:
    return HttpError(422, why, 42201)


def invalid_version(version: str) -> HttpError:
    text = f"The specified version '{version[:100]}' is not a valid version id. "
    return HttpError(422, text + 'Allowed values are between [1, 2^31-1] and the string "latest"', 42202)


def invalid_compatibility() -> HttpError:
    levels = "none, backward, forward, full, backward_transitive, forward_transitive, and full_transitive"
    return HttpError(422, f"Invalid compatibility level. Valid values are {levels}", 42203)


def invalid_mode(why: str = "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD.") -> HttpError:
    return HttpError(422, why, 42204)


def not_permitted(why: str) -> HttpError:
    return HttpError(422, why, 42205)


def reference_exists(subject: str, version: int) -> HttpError:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return HttpError(422, f"One or more references exist to the schema {key}.", 42206)


def invalid_subject(subject: str) -> HttpError:
    return HttpError(422, f"The specified subject '{subject[:200]}' is not a valid.", 42208)


def invalid_context(context: str) -> HttpError:
    return HttpError(400, f"The context '{context[:200]}' in the path may not have a colon inside its name", 400)


def too_large(why: str) -> HttpError:
    return HttpError(422, why, 42209)


def invalid_rule_set(why: str) -> HttpError:
    return HttpError(422, why, 42210)


def context_not_empty(context: str) -> HttpError:
    return HttpError(422, f"The specified context '{context[:200]}' is not empty.", 42211)


def store_failed(why: str) -> HttpError:
    return HttpError(500, why, 50001)


def timed_out(why: str) -> HttpError:
    return HttpError(500, why, 50002)


def forwarding_failed(why: str) -> HttpError:
    return HttpError(500, why, 50003)


def unknown_leader(why: str = "Leader not known.") -> HttpError:
    return HttpError(500, why, 50004)
