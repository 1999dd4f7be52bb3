/* The hot path of Fetch, compiled: a request that can be answered at once with what the logs have.
 *
 * The same as `server/dispatch.begin` and `broker/handlers/fetch.Fetch.begin` do together, for requests that are
 * plainly fine: without a session or with one that is known, from a consumer or from a follower in sync, with an answer
 * that need not wait. Whatever is not goes the general way in Python, before anything was changed. There the rules are
 * written down; what is here must not differ, and a test compares both.
 *
 * Of users with access rules, the rights of their connection come in the place of the broker (../rights.h): then every
 * partition that is read, of the request or of its session, must be of a topic that is noted there, and followers go
 * the general way.
 *
 * The objects are those of Python, with `__slots__`: `configure` looks up where each slot lies. Nothing is kept here
 * but these places. One thread calls it, the owner of the loop.
 */
#include "fetch.h"

#define DEFINE(type, name, text) Py_ssize_t name;
SLOTS(DEFINE)
#undef DEFINE
#define DEFINE(name, text) PyObject *name_##name;
NAMES(DEFINE)
#undef DEFINE

PyTypeObject *types[TYPES];

static Request request; /* large, and one thread: it is filled and used within one call */
static Plan plan;

static int number_of(PyObject *found, int64_t *value) {
    int done = number(found, value);
    Py_XDECREF(found);
    return done;
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* The last stable offset: the high watermark, unless there are transactions. */
static int stable_offset(PyObject *log, Part *part) {
    PyObject *producers = SLOT(log, log_producers);
    if (!is_a(producers, PRODUCERS)) return 0;
    PyObject *ongoing = SLOT(producers, producers_ongoing), *ended = SLOT(producers, producers_ended);
    if (!is_dict(ongoing) || !is_dict(ended)) return 0;
    part->stable_offset = part->high_watermark;
    if (PyDict_GET_SIZE(ongoing) == 0 && PyDict_GET_SIZE(ended) == 0) return 1;
    return number_of(PyObject_GetAttr(part->partition, name_last_stable_offset), &part->stable_offset);
}

/* Takes note of what a follower has, as often as it says so. Only for those in sync: nothing holds them back. */
static int follower_has(const Request *r, Part *part) {
    PyObject *epoch = PyLong_FromLongLong(r->replica_epoch), *offset = PyLong_FromLongLong(part->offset);
    PyObject *start = PyLong_FromLongLong(part->follower_start), *noted = NULL;
    if (epoch != NULL && offset != NULL && start != NULL)
        noted = PyObject_CallMethodObjArgs(plan.keeper, name_follower_fetched, part->partition, plan.replica, epoch,
                                           offset, start, NULL);
    Py_XDECREF(epoch);
    Py_XDECREF(offset);
    Py_XDECREF(start);
    Py_XDECREF(noted);
    PyObject *in_sync = noted == NULL ? NULL : SLOT(part->partition, partition_in_sync);
    PyObject *members = in_sync == NULL ? NULL : PyObject_GetAttr(in_sync, name_members);
    int is_member = is_dict(members) && PyDict_Contains(members, plan.replica) == 1;
    Py_XDECREF(members);
    return is_member;
}

/* The twin of `Reader.read`. */
static int read_part(const Request *r, Part *part, int64_t room, int must_give) {
    PyObject *partition = part->partition, *log = SLOT(partition, partition_log);
    int64_t leader_epoch, end, start;
    if (SLOT(partition, partition_is_leader) != Py_True || SLOT(partition, partition_deleted) != Py_False ||
        !is_a(log, LOG) || !get(partition, partition_leader_epoch, &leader_epoch) || !get(log, log_end_offset, &end) ||
        !get(log, log_start_offset, &start))
        return 0;
    if ((part->leader_epoch >= 0 && part->leader_epoch != leader_epoch) ||
        (part->last_epoch >= 0 && part->last_epoch != leader_epoch) || part->offset < start || part->offset > end)
        return 0;
    if (plan.keeper != NULL && !follower_has(r, part)) return 0;
    if (SLOT(partition, partition_log) != log || !get(log, log_start_offset, &part->start_offset) ||
        !get(partition, partition_high_watermark, &part->high_watermark) || !stable_offset(log, part))
        return 0;
    int64_t upper = part->high_watermark;
    if (plan.keeper != NULL) upper = end;
    else if (r->isolation == READ_COMMITTED) {
        upper = part->stable_offset;
        if (!has_no_aborted(log, part->offset)) return 0;
    }
    if (part->offset >= upper) return 1;
    Py_INCREF(log);
    int done = room <= 0 && !must_give ? 1 : read_log(log, part, smaller(room, part->max_bytes), upper, must_give);
    PyObject *active = SLOT(log, log_active);
    int64_t size;
    if (part->file == NULL) plan.is_cut |= !must_give;
    else if (!is_a(active, SEGMENT) || SLOT(active, segment_file) != part->file || !get(active, segment_size, &size) ||
             part->position + part->length != size)
        plan.is_cut = 1; /* more lies behind it */
    Py_DECREF(log);
    return done;
}

/* Before a follower's position is noted, which is work: whether there is anything to give. Most of them will wait. */
static int has_something(void) {
    int64_t end;
    for (int i = 0; i < plan.part_count; i++) {
        PyObject *log = SLOT(plan.parts[i].partition, partition_log);
        if (is_a(log, LOG) && get(log, log_end_offset, &end) && end > plan.parts[i].offset) return 1;
    }
    return 0;
}

static int find_keeper(const Request *r) {
    PyObject *replicas = PyObject_GetAttr(plan.broker, name_replicas);
    plan.keeper = replicas == NULL || replicas == Py_None ? NULL : PyObject_GetAttr(replicas, name_keeper);
    Py_XDECREF(replicas);
    plan.replica = PyLong_FromLong(r->replica_id);
    return plan.keeper != NULL && plan.replica != NULL;
}

/* Whether the files are open still: whatever was called may have let go of one. */
static int are_open(void) {
    int64_t references;
    for (int i = 0; i < plan.part_count; i++)
        if (plan.parts[i].file != NULL && (!get(plan.parts[i].file, file_references, &references) || references <= 0))
            return 0;
    return 1;
}

static int read_all(const Request *r, int64_t max_bytes) {
    for (int i = 0; i < plan.part_count; i++) {
        if (!read_part(r, &plan.parts[i], max_bytes - plan.size, plan.size == 0)) return 0;
        plan.size += plan.parts[i].length;
    }
    return plan.is_cut || plan.size >= smaller(r->min_bytes, max_bytes) || r->max_wait_ms <= 0;
}

static int note_bytes(void) {
    int64_t bytes;
    for (int i = 0; i < plan.part_count && plan.keeper == NULL; i++) {
        Part *part = &plan.parts[i];
        if (!get(part->partition, partition_bytes_out, &bytes) ||
            put(part->partition, partition_bytes_out, bytes + part->length))
            return 0;
    }
    return 1;
}

/* NULL: not plain, perhaps with an exception. */
static PyObject *handle(PyObject *broker, const Request *r, int32_t correlation_id) {
    int64_t limit = 0;
    int has_session = r->session_epoch > 0;
    if (plan.rights != NULL && (r->replica_id >= 0 || !rights_hold(plan.rights, name_image, name_acl_generation))) return NULL;
    if (!has_session && (r->session_id != 0 || r->session_epoch != FINAL_EPOCH || r->replica_id >= 0)) return NULL;
    PyObject *config = PyObject_GetAttr(broker, name_config);
    int done = config != NULL && number_of(PyObject_CallMethodOneArg(config, name_int, name_fetch_max_bytes), &limit);
    Py_XDECREF(config);
    PyObject *clock = done && has_session ? PyObject_GetAttr(broker, name_clock) : NULL;
    if (has_session) done = clock != NULL && number_of(PyObject_CallMethodNoArgs(clock, name_monotonic_ms), &plan.now_ms);
    Py_XDECREF(clock);
    if (!done || !(has_session ? plan_of_session(r, &plan) : plan_without_session(r, &plan))) return NULL;
    if (r->replica_id >= 0 && (!has_something() || !find_keeper(r))) return NULL;
    if (!read_all(r, smaller(r->max_bytes, limit)) || !are_open()) return NULL;
    if (plan.size > INT32_MAX / 2 || !note_bytes() || (has_session && !note_session(r, &plan))) return NULL;
    return answer(r, &plan, correlation_id);
}

static void clear_plan(void) {
    for (int i = 0; i < plan.part_count; i++) {
        Part *part = &plan.parts[i];
        Py_CLEAR(part->key);
        Py_CLEAR(part->spec);
        Py_CLEAR(part->partition);
        Py_CLEAR(part->file);
    }
    Py_CLEAR(plan.sessions);
    Py_CLEAR(plan.session);
    Py_CLEAR(plan.keeper);
    Py_CLEAR(plan.replica);
    plan.part_count = plan.topic_count = plan.is_cut = 0;
    plan.size = 0;
    plan.broker = plan.rights = NULL;
}

/* handle_frame(broker, frame, at, end, version, correlation_id): the answer's chunks, or None for the general way. */
static PyObject *handle_frame(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 6 || types[0] == NULL) {
        PyErr_SetString(PyExc_TypeError, "handle_frame takes six arguments, after configure");
        return NULL;
    }
    if (plan.broker != NULL) Py_RETURN_NONE; /* called by what it calls */
    Py_ssize_t at = PyLong_AsSsize_t(args[2]), end = PyLong_AsSsize_t(args[3]);
    long version = PyLong_AsLong(args[4]), correlation_id = PyLong_AsLong(args[5]);
    Py_buffer frame;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[1], &frame, PyBUF_SIMPLE)) return NULL;
    PyObject *found = NULL;
    if (0 <= at && at <= end && end <= frame.len && read_request(frame.buf, at, end, (int)version, &request)) {
        plan.rights = is_a(args[0], RIGHTS) ? args[0] : NULL;
        plan.broker = plan.rights == NULL ? args[0] : SLOT(plan.rights, rights_broker);
        if (plan.broker != NULL) found = handle(plan.broker, &request, (int32_t)correlation_id);
        clear_plan();
    }
    PyBuffer_Release(&frame);
    if (found != NULL) return found;
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_Exception)) return NULL;
        PyErr_Clear(); /* the general way meets it again, and tells */
    }
    Py_RETURN_NONE;
}

/* configure(the classes, in the order of `enum type`) */
static PyObject *configure(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != TYPES) return PyErr_Format(PyExc_TypeError, "configure takes %d classes", (int)TYPES);
    for (int i = 0; i < TYPES; i++)
        if (!PyType_Check(args[i])) return PyErr_Format(PyExc_TypeError, "configure takes classes");
    for (int i = 0; i < TYPES; i++) Py_XSETREF(types[i], (PyTypeObject *)Py_NewRef(args[i]));
#define LOOK_UP(type, name, text)                                                                                      \
    if (look_up(types[type], text, &name)) return NULL;
    SLOTS(LOOK_UP)
#undef LOOK_UP
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"configure", (PyCFunction)(void (*)(void))configure, METH_FASTCALL, "Takes the classes of the hot path."},
    {"handle_frame", (PyCFunction)(void (*)(void))handle_frame, METH_FASTCALL,
     "The chunks of the answer, or None: take the general way."},
    {"send_chunks", (PyCFunction)(void (*)(void))send_chunks, METH_FASTCALL, "As `server.outbox.send_chunks`."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "headwater.server._fetch", "The hot path of Fetch, compiled.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__fetch(void) {
#define INTERN(name, text)                                                                                             \
    if (name_##name == NULL && (name_##name = PyUnicode_InternFromString(text)) == NULL) return NULL;
    NAMES(INTERN)
#undef INTERN
    return PyModule_Create(&definition);
}
