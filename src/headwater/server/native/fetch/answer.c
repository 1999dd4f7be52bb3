/* The answer to a Fetch: length prefix, header and body as bytes, with file slices where records go. */
#include "fetch.h"

enum { PREFIX_BYTES_MAX = 64, TOPIC_BYTES_MAX = 16, PART_BYTES_MAX = 64 }; /* without names */

/* The topics in the order of the answer: by the first of their partitions that is told of. */
typedef struct {
    int count, topics[TOPICS_MAX];
    int32_t told[TOPICS_MAX];
} Order;

static void put_in_order(const Plan *plan, Order *o) {
    o->count = 0;
    for (int i = 0; i < plan->part_count; i++) {
        int at = 0;
        if (!plan->parts[i].is_told) continue;
        while (at < o->count && o->topics[at] != plan->parts[i].topic) at++;
        if (at == o->count) {
            o->topics[o->count] = plan->parts[i].topic;
            o->told[o->count++] = 0;
        }
        o->told[at]++;
    }
}

static uint8_t *put_varint(uint8_t *p, uint32_t value) {
    for (; value > 127; value >>= 7) *p++ = (uint8_t)(value | 128);
    *p++ = (uint8_t)value;
    return p;
}

static uint8_t *put_count(uint8_t *p, const Request *r, int32_t count) {
    if (r->is_flexible) return put_varint(p, (uint32_t)count + 1);
    put32(p, count);
    return p + 4;
}

static uint8_t *put_no_tags(uint8_t *p, const Request *r) {
    if (r->is_flexible) *p++ = 0;
    return p;
}

static uint8_t *put_topic(uint8_t *p, const Request *r, const Topic *topic) {
    if (!r->is_by_id && r->is_flexible) p = put_varint(p, (uint32_t)topic->name_bytes + 1);
    else if (!r->is_by_id) {
        put16(p, (int16_t)topic->name_bytes);
        p += 2;
    }
    memcpy(p, topic->name, (size_t)topic->name_bytes);
    return p + topic->name_bytes;
}

/* Up to its records, which come next, and the tags behind them. */
static uint8_t *put_part(uint8_t *p, const Request *r, const Part *part) {
    put32(p, part->index);
    put16(p + 4, 0); /* no error */
    put64(p + 6, part->high_watermark);
    put64(p + 14, part->stable_offset);
    p += 22;
    if (r->version >= FIRST_WITH_START_OFFSET) {
        put64(p, part->start_offset);
        p += 8;
    }
    int is_committed = r->isolation == READ_COMMITTED && r->replica_id < 0; /* else the list of aborted ones is null */
    p = put_count(p, r, is_committed ? 0 : -1);
    if (r->version >= FIRST_WITH_RACK) {
        put32(p, -1); /* no other replica to go to */
        p += 4;
    }
    return put_count(p, r, (int32_t)part->length);
}

static PyObject *slice_of(Part *part) {
    int64_t references;
    PyObject *slice = types[SLICE]->tp_alloc(types[SLICE], 0);
    if (slice == NULL) return NULL;
    SLOT(slice, slice_file) = Py_NewRef(part->file);
    if (put(slice, slice_position, part->position) || put(slice, slice_length, part->length) ||
        !get(part->file, file_references, &references) || put(part->file, file_references, references + 1)) {
        Py_DECREF(slice);
        return NULL;
    }
    return slice;
}

static int append(PyObject *chunks, PyObject *chunk) {
    int failed = chunk == NULL || PyList_Append(chunks, chunk);
    Py_XDECREF(chunk);
    return failed;
}

/* The bytes as pieces, and the slices between them. */
static PyObject *chunks_of(Plan *plan, const Order *o, const uint8_t *bytes, const uint8_t *end, const Py_ssize_t *cuts) {
    PyObject *chunks = PyList_New(0);
    Py_ssize_t from = 0;
    int failed = chunks == NULL;
    for (int topic = 0; topic < o->count; topic++)
        for (int i = 0; i < plan->part_count && !failed; i++) {
            Part *part = &plan->parts[i];
            if (part->topic != o->topics[topic] || !part->is_told || part->file == NULL) continue;
            failed = append(chunks, PyBytes_FromStringAndSize((const char *)bytes + from, cuts[i] - from)) ||
                     append(chunks, slice_of(part));
            from = cuts[i];
        }
    if (!failed && end - bytes > from)
        failed = append(chunks, PyBytes_FromStringAndSize((const char *)bytes + from, end - bytes - from));
    if (!failed) return chunks;
    for (Py_ssize_t i = 0; chunks != NULL && i < PyList_GET_SIZE(chunks); i++) { /* out of memory */
        PyObject *each = PyList_GET_ITEM(chunks, i), *kind, *value, *trace;
        PyErr_Fetch(&kind, &value, &trace);
        if (is_a(each, SLICE)) Py_XDECREF(PyObject_CallMethodNoArgs(each, name_release));
        PyErr_Restore(kind, value, trace);
    }
    Py_XDECREF(chunks);
    return NULL;
}

/* NULL without an exception: too large for one answer. */
PyObject *answer(const Request *r, Plan *plan, int32_t correlation_id) {
    Order o;
    Py_ssize_t cuts[PARTS_MAX], room = PREFIX_BYTES_MAX + (Py_ssize_t)plan->part_count * PART_BYTES_MAX;
    put_in_order(plan, &o);
    for (int i = 0; i < o.count; i++) room += plan->topics[o.topics[i]].name_bytes + TOPIC_BYTES_MAX;
    if (plan->size > INT32_MAX - (int64_t)room) return NULL;
    uint8_t *bytes = PyMem_Malloc((size_t)room), *p = bytes;
    if (bytes == NULL) return PyErr_NoMemory();
    put32(p + 4, correlation_id);
    p = put_no_tags(p + 8, r);
    put32(p, 0); /* no throttling */
    p += 4;
    if (r->version >= FIRST_WITH_SESSIONS) {
        put16(p, 0); /* no error */
        put32(p + 2, plan->session == NULL ? 0 : r->session_id);
        p += 6;
    }
    p = put_count(p, r, o.count);
    for (int topic = 0; topic < o.count; topic++) {
        p = put_count(put_topic(p, r, &plan->topics[o.topics[topic]]), r, o.told[topic]);
        for (int i = 0; i < plan->part_count; i++) {
            if (plan->parts[i].topic != o.topics[topic] || !plan->parts[i].is_told) continue;
            p = put_part(p, r, &plan->parts[i]);
            cuts[i] = p - bytes;
            p = put_no_tags(p, r);
        }
        p = put_no_tags(p, r);
    }
    p = put_no_tags(p, r);
    put32(bytes, (int32_t)(p - bytes - 4 + plan->size));
    PyObject *chunks = chunks_of(plan, &o, bytes, p, cuts);
    PyMem_Free(bytes);
    return chunks;
}
