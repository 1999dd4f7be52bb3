/* Which schemas the records of a batch name: the first bytes of each key or value, or the header that stands for them.
 *
 * The bytes are walked over with the GIL let go of, so that a thread beside the loop can do it. Few frames are told
 * apart: a batch rarely has more than one, and a search among many would cost a peer nothing and us much.
 */
#include "codec.h"

#define FRAMES_MAX 128
#define ID_BYTES 5
#define GUID_BYTES 17
#define NO_FRAME (-1)
#define TOO_MANY (-2)

static const char KEY_HEADER[] = "__key_schema_id", VALUE_HEADER[] = "__value_schema_id";

typedef struct {
    uint8_t bytes[GUID_BYTES];
    int64_t size_bytes;
} frame;

typedef struct {
    frame frames[FRAMES_MAX];
    int32_t count, last;
} frame_set;

static frame frame_at(const cell *found) {
    frame made = {{0}, 0};
    made.size_bytes = found->size_bytes > 0 && found->data[0] == 1 ? GUID_BYTES : ID_BYTES;
    if (made.size_bytes > found->size_bytes)
        made.size_bytes = found->size_bytes;
    memcpy(made.bytes, found->data, (size_t)made.size_bytes);
    return made;
}

static int32_t place_of(frame_set *set, const frame *wanted) {
    if (set->count > 0 && memcmp(&set->frames[set->last], wanted, sizeof *wanted) == 0)
        return set->last;
    for (int32_t i = 0; i < set->count; i++)
        if (memcmp(&set->frames[i], wanted, sizeof *wanted) == 0)
            return set->last = i;
    if (set->count == FRAMES_MAX)
        return TOO_MANY;
    set->frames[set->count] = *wanted;
    return set->last = set->count++;
}

/* The header's value if the record has one that is not null, else the key or value itself. */
static bool find_frame(const raw_record *record, bool of_key, cell *found) {
    const char *name = of_key ? KEY_HEADER : VALUE_HEADER;
    const int64_t name_bytes = (int64_t)strlen(name);
    const uint8_t *at = record->headers;
    *found = of_key ? record->key : record->value;
    if (found->size_bytes < 0)
        return true;
    for (int64_t i = 0; i < record->header_count; i++) {
        cell key, value;
        at = next_header(at, record->end, &key, &value);
        if (at == NULL)
            return false;
        if (key.size_bytes == name_bytes && value.size_bytes >= 0 && memcmp(key.data, name, (size_t)name_bytes) == 0) {
            *found = value;
            return true;
        }
    }
    return true;
}

static const char *walk(const Py_buffer *payload, const batch_facts *facts, bool of_key, frame_set *set, int32_t *places) {
    const uint8_t *at = payload->buf, *end = at + payload->len;
    const char *why;
    for (int64_t i = 0; i < facts->record_count; i++) {
        raw_record record;
        cell found;
        at = parse_record(at, end, facts, &record, &why);
        if (at == NULL)
            return why;
        if (!find_frame(&record, of_key, &found))
            return "it was written to while it was read";
        if (found.size_bytes < 0) {
            places[i] = NO_FRAME;
        } else {
            frame wanted = frame_at(&found);
            places[i] = place_of(set, &wanted);
        }
    }
    return at == end ? NULL : "bytes after the last record";
}

static PyObject *frames_and_places(const frame_set *set, PyObject *places) {
    PyObject *list = PyList_New(set->count);
    for (int32_t i = 0; list != NULL && i < set->count; i++) {
        PyObject *each =
            PyBytes_FromStringAndSize((const char *)set->frames[i].bytes, (Py_ssize_t)set->frames[i].size_bytes);
        if (each == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, each);
    }
    PyObject *both = list == NULL ? NULL : PyTuple_Pack(2, list, places);
    Py_XDECREF(list);
    return both;
}

PyObject *py_schema_frames(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    batch_facts facts;
    Py_buffer payload;
    if (!right_count(count, 3, 3, "schema_frames") || PyObject_GetBuffer(args[0], &payload, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *made = NULL, *places = NULL;
    frame_set *set = NULL;
    int of_key = PyObject_IsTrue(args[2]);
    if (of_key >= 0 && read_facts(args[1], payload.len, &facts)) {
        places = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)facts.record_count * (Py_ssize_t)sizeof(int32_t));
        set = PyMem_Calloc(1, sizeof *set);
        if (set == NULL)
            PyErr_NoMemory();
    }
    if (places != NULL && set != NULL) {
        const char *why;
        int32_t *written = (int32_t *)PyBytes_AS_STRING(places);
        Py_BEGIN_ALLOW_THREADS
        why = walk(&payload, &facts, of_key, set, written);
        Py_END_ALLOW_THREADS
        made = why != NULL ? raise_corrupt(facts.base_offset, why) : frames_and_places(set, places);
    }
    PyMem_Free(set);
    Py_XDECREF(places);
    PyBuffer_Release(&payload);
    return made;
}
