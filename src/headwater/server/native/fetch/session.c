/* What a fetch asks for: of its own partitions, or of those of its session (broker/fetch_sessions.py), as far as they
 * changed or have news.
 *
 * A plan changes nothing. `note_session` does afterwards what `FetchSessions.find`, `FetchSession.update` and
 * `Fetch._respond` would have done.
 */
#include "fetch.h"

enum { NOTED_EVERY_MS = 500, PLACES_BITS = 9, PLACES = 1 << PLACES_BITS }; /* twice PARTS_MAX: never more than half full */
static const int64_t EPOCH_MAX = INT32_MAX;

/* The list of a topic's partitions, borrowed. Two names of one request are one topic of the answer if they are the
 * same. */
int find_topic(PyObject *broker, const uint8_t *name, Py_ssize_t name_bytes, int is_by_id, Plan *plan, int *at) {
    PyObject *topics = PyObject_GetAttr(broker, is_by_id ? name_by_topic_id : name_by_wire_name), *listed = NULL;
    PyObject *key = PyBytes_FromStringAndSize((const char *)name, name_bytes);
    if (key != NULL && is_dict(topics)) listed = PyDict_GetItemWithError(topics, key);
    Py_XDECREF(topics);
    Py_XDECREF(key);
    if (listed == NULL || !PyList_CheckExact(listed)) return 0;
    for (*at = 0; *at < plan->topic_count; ++*at)
        if (plan->topics[*at].listed == listed) return 1;
    if (plan->topic_count == TOPICS_MAX) return 0;
    plan->topics[plan->topic_count++] = (Topic){name, name_bytes, listed};
    return 1;
}

static int find_partition(Plan *plan, Part *part) {
    PyObject *listed = plan->topics[part->topic].listed;
    if (part->index < 0 || part->index >= PyList_GET_SIZE(listed)) return 0;
    PyObject *found = PyList_GET_ITEM(listed, part->index);
    if (!is_a(found, PARTITION)) return 0;
    if (plan->rights != NULL &&
        !rights_have(SLOT(plan->rights, rights_readable), SLOT(found, partition_topic_id)))
        return 0;
    part->partition = Py_NewRef(found);
    return 1;
}

int plan_without_session(const Request *r, Plan *plan) {
    for (int i = 0; i < r->part_count; i++) {
        const Topic *topic = &r->topics[r->parts[i].topic];
        Part *part = &plan->parts[plan->part_count++];
        *part = r->parts[i];
        part->is_told = 1;
        if (!find_topic(plan->broker, topic->name, topic->name_bytes, r->is_by_id, plan, &part->topic) ||
            !find_partition(plan, part))
            return 0;
    }
    return plan->part_count > 0;
}

/* Sessions */

static int find_session(const Request *r, Plan *plan) {
    int64_t epoch;
    plan->sessions = PyObject_GetAttr(plan->broker, name_fetch_sessions);
    PyObject *by_id = is_a(plan->sessions, SESSIONS) ? SLOT(plan->sessions, sessions_by_id) : NULL;
    PyObject *key = PyLong_FromLong(r->session_id);
    PyObject *session = key != NULL && is_dict(by_id) ? PyDict_GetItemWithError(by_id, key) : NULL;
    Py_XDECREF(key);
    if (!is_a(session, SESSION)) return 0;
    plan->session = Py_NewRef(session);
    return get(session, session_epoch, &epoch) && epoch == r->session_epoch &&
           SLOT(session, session_by_topic_id) == (r->is_by_id ? Py_True : Py_False) &&
           is_dict(SLOT(session, session_specs)) && PyDict_GET_SIZE(SLOT(session, session_specs)) > 0;
}

/* What the session knows of a partition that the request names, borrowed. */
static PyObject *known_spec(const Request *r, const Part *part, PyObject *specs) {
    const Topic *topic = &r->topics[part->topic];
    PyObject *name = r->is_by_id ? PyBytes_FromStringAndSize((const char *)topic->name, topic->name_bytes)
                                 : PyUnicode_DecodeUTF8((const char *)topic->name, topic->name_bytes, NULL);
    PyObject *key = name == NULL ? NULL : Py_BuildValue("(Ni)", name, (int)part->index);
    PyObject *known = key == NULL ? NULL : PyDict_GetItemWithError(specs, key);
    Py_XDECREF(key);
    return is_a(known, SPEC) ? known : NULL;
}

/* The partition as the session has it. */
static int take_spec(PyObject *spec, Part *part) {
    int64_t index;
    if (!get(spec, spec_partition, &index) || !get(spec, spec_offset, &part->offset) ||
        !get(spec, spec_max_bytes, &part->max_bytes) || !get(spec, spec_leader_epoch, &part->leader_epoch) ||
        !get(spec, spec_last_epoch, &part->last_epoch) || !get(spec, spec_log_start, &part->follower_start))
        return 0;
    part->index = (int32_t)index;
    return part->max_bytes >= 0;
}

/* Whether a follower has heard all there is: the twin of `Reader.has_no_news`. */
static int has_no_news(PyObject *spec, int64_t now_ms) {
    PyObject *partition = SLOT(spec, spec_found);
    if (!is_a(partition, PARTITION) || SLOT(partition, partition_deleted) != Py_False) return 0;
    PyObject *log = SLOT(partition, partition_log);
    int64_t end, offset, high_watermark, told, start, told_start, noted_ms;
    return is_a(log, LOG) && get(log, log_end_offset, &end) && get(spec, spec_offset, &offset) && end == offset &&
           get(partition, partition_high_watermark, &high_watermark) && get(spec, spec_told_high_watermark, &told) &&
           high_watermark == told && get(log, log_start_offset, &start) && get(spec, spec_told_start, &told_start) &&
           start == told_start && get(spec, spec_noted_ms, &noted_ms) && now_ms - noted_ms < NOTED_EVERY_MS;
}

static int plan_spec(const Request *r, Plan *plan, PyObject *key, PyObject *spec, const Part *asked) {
    if (plan->part_count == PARTS_MAX) return 0;
    Part *part = &plan->parts[plan->part_count++];
    memset(part, 0, sizeof *part);
    if (asked != NULL) *part = *asked;
    part->is_changed = asked != NULL;
    part->key = Py_NewRef(key);
    part->spec = Py_NewRef(spec);
    if (asked == NULL && !take_spec(spec, part)) return 0;
    PyObject *name = SLOT(spec, r->is_by_id ? spec_topic_id : spec_topic);
    const char *text = NULL;
    Py_ssize_t size = 0;
    if (r->is_by_id && name != NULL && PyBytes_CheckExact(name)) {
        text = PyBytes_AS_STRING(name);
        size = PyBytes_GET_SIZE(name);
    } else if (!r->is_by_id && name != NULL && PyUnicode_CheckExact(name))
        text = PyUnicode_AsUTF8AndSize(name, &size);
    if (text == NULL || size == 0 || (r->is_by_id && size != 16)) return 0;
    return find_topic(plan->broker, (const uint8_t *)text, size, r->is_by_id, plan, &part->topic) &&
           find_partition(plan, part);
}

/* Which partition of the request a spec of the session stands for: a session may have very many, and a request
 * hundreds. */
typedef struct {
    const PyObject *spec; /* NULL: free */
    const Part *asked;
} Place;

/* The place of a spec, or the free one where it would stand. */
static Place *place_of(Place *places, const PyObject *spec) {
    size_t at = (size_t)((uint64_t)(uintptr_t)spec * UINT64_C(0x9E3779B97F4A7C15) >> (64 - PLACES_BITS));
    while (places[at].spec != NULL && places[at].spec != spec) at = (at + 1) % PLACES;
    return &places[at];
}

static int place_asked(const Request *r, PyObject *specs, Place *places) {
    for (int i = 0; i < r->part_count; i++) {
        const PyObject *spec = known_spec(r, &r->parts[i], specs);
        if (spec == NULL) return 0;
        Place *place = place_of(places, spec);
        if (place->spec != NULL) return 0; /* asked for twice: each goes on from the one before it, or does not */
        *place = (Place){spec, &r->parts[i]};
    }
    return 1;
}

int plan_of_session(const Request *r, Plan *plan) {
    _Static_assert(PLACES >= 2 * PARTS_MAX, "a place for each");
    if (!find_session(r, plan)) return 0;
    Place places[PLACES] = {{NULL, NULL}};
    PyObject *specs = SLOT(plan->session, session_specs), *key, *spec;
    if (!place_asked(r, specs, places)) return 0;
    for (Py_ssize_t at = 0; PyDict_Next(specs, &at, &key, &spec);) {
        if (!is_a(spec, SPEC)) return 0;
        const Part *asked = r->part_count == 0 ? NULL : place_of(places, spec)->asked;
        if (r->replica_id >= 0 && asked == NULL && has_no_news(spec, plan->now_ms)) continue;
        if (!plan_spec(r, plan, key, spec, asked)) return 0;
    }
    return plan->part_count > 0;
}

/* Afterwards */

/* The twin of `FetchSpec.goes_on_from`. */
static int goes_on(const Part *part, PyObject *known) {
    int64_t leader_epoch, offset;
    return get(known, spec_leader_epoch, &leader_epoch) && leader_epoch == part->leader_epoch &&
           get(known, spec_offset, &offset) && part->offset >= offset;
}

static PyObject *changed_spec(const Part *part) {
    PyObject *spec = types[SPEC]->tp_alloc(types[SPEC], 0);
    if (spec == NULL) return NULL;
    const Py_ssize_t kept[] = {spec_topic, spec_topic_id, spec_partition, spec_told_high_watermark, spec_told_start};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        PyObject *value = SLOT(part->spec, kept[i]);
        put_object(spec, kept[i], value == NULL ? Py_None : value);
    }
    put_object(spec, spec_found, Py_None);
    if (!goes_on(part, part->spec) && (put(spec, spec_told_high_watermark, -1) || put(spec, spec_told_start, -1))) {
        Py_DECREF(spec);
        return NULL;
    }
    if (put(spec, spec_offset, part->offset) || put(spec, spec_max_bytes, part->max_bytes) ||
        put(spec, spec_leader_epoch, part->leader_epoch) || put(spec, spec_last_epoch, part->last_epoch) ||
        put(spec, spec_log_start, part->follower_start) || put(spec, spec_noted_ms, 0)) {
        Py_DECREF(spec);
        return NULL;
    }
    return spec;
}

static int note_part(Plan *plan, Part *part, PyObject *specs) {
    if (part->is_changed) {
        PyObject *spec = changed_spec(part);
        if (spec == NULL || PyDict_SetItem(specs, part->key, spec)) {
            Py_XDECREF(spec);
            return 0;
        }
        Py_SETREF(part->spec, spec);
    }
    if (plan->keeper != NULL) {
        put_object(part->spec, spec_found, part->partition);
        if (put(part->spec, spec_noted_ms, plan->now_ms)) return 0;
    }
    int64_t told, told_start;
    part->is_told = part->file != NULL || !get(part->spec, spec_told_high_watermark, &told) ||
                    !get(part->spec, spec_told_start, &told_start) || told != part->high_watermark ||
                    told_start != part->start_offset;
    if (!part->is_told) return 1;
    if (put(part->spec, spec_told_high_watermark, part->high_watermark) ||
        put(part->spec, spec_told_start, part->start_offset))
        return 0;
    if (part->file == NULL) return 1;
    return !PyDict_DelItem(specs, part->key) && !PyDict_SetItem(specs, part->key, part->spec); /* to the end */
}

int note_session(const Request *r, Plan *plan) {
    PyObject *session = plan->session, *by_id = SLOT(plan->sessions, sessions_by_id);
    PyObject *key = PyLong_FromLong(r->session_id), *specs = Py_XNewRef(SLOT(session, session_specs));
    int64_t epoch = r->session_epoch == EPOCH_MAX ? 1 : (int64_t)r->session_epoch + 1;
    int done = key != NULL && is_dict(by_id) && is_dict(specs) && !PyDict_DelItem(by_id, key) &&
               !PyDict_SetItem(by_id, key, session) && !put(session, session_epoch, epoch) &&
               !put(session, session_used_ms, plan->now_ms);
    for (int i = 0; i < plan->part_count && done; i++) done = note_part(plan, &plan->parts[i], specs);
    Py_XDECREF(key);
    Py_XDECREF(specs);
    return done;
}
