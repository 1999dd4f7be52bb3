/* The twin of `Log.read` (log/log.py) and of what it asks of `Segment` and `OffsetIndex`. Whatever needs a walk over
 * batches is asked for in Python. */
#include "fetch.h"

#include <unistd.h>

enum { ENTRY_BYTES = 8, MAGIC = 2, MAGIC_AT = 16, LAST_DELTA_AT = 23, HEAD_BYTES = 27, BATCH_LENGTH_MIN = 49 };

static int64_t call(PyObject *object, PyObject *name, int64_t first, int64_t second, int64_t third, int count) {
    PyObject *args[4] = {object, NULL, NULL, NULL};
    int64_t values[3] = {first, second, third}, found = -1;
    int made = 0;
    while (made < count && (args[made + 1] = PyLong_FromLongLong(values[made])) != NULL) made++;
    PyObject *answered = made == count ? PyObject_VectorcallMethod(name, args, (size_t)count + 1, NULL) : NULL;
    if (!number(answered, &found)) found = -1;
    Py_XDECREF(answered);
    for (int i = 1; i <= made; i++) Py_DECREF(args[i]);
    return found;
}

static int64_t remembered(PyObject *positions, int64_t offset) {
    int64_t position = -1;
    if (!is_dict(positions) || PyDict_GET_SIZE(positions) == 0) return -1;
    PyObject *key = PyLong_FromLongLong(offset);
    if (key == NULL || !number(PyDict_GetItemWithError(positions, key), &position)) position = -1;
    Py_XDECREF(key);
    return position;
}

/* The entries of a segment's index, if they are in memory. */
static const uint8_t *entries_of(PyObject *segment, Py_ssize_t *count, int64_t *base_offset) {
    PyObject *index = SLOT(segment, segment_offset_index);
    PyObject *entries = is_a(index, OFFSET_INDEX) ? SLOT(index, index_entries) : NULL;
    if (entries == NULL || !PyByteArray_CheckExact(entries) || !get(index, index_base_offset, base_offset)) return NULL;
    *count = PyByteArray_GET_SIZE(entries) / ENTRY_BYTES;
    return (const uint8_t *)PyByteArray_AS_STRING(entries);
}

/* How many entries have a number at or below `value` in the column at `column`: they come first. */
static Py_ssize_t entries_up_to(const uint8_t *entries, Py_ssize_t count, int column, int64_t value) {
    Py_ssize_t low = 0, high = count;
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        if (int32_at(entries + middle * ENTRY_BYTES + column) > value) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* The border of the first entry past `offset`, if that is where `offset` begins: a reader that was cut off there comes
 * back to it. */
static int64_t indexed(PyObject *segment, int64_t offset) {
    Py_ssize_t count;
    int64_t base_offset, descriptor;
    PyObject *file = SLOT(segment, segment_file);
    const uint8_t *entries = entries_of(segment, &count, &base_offset);
    if (entries == NULL || !is_a(file, FILE_) || !get(file, file_descriptor, &descriptor)) return -1;
    Py_ssize_t at = entries_up_to(entries, count, 0, offset - base_offset);
    if (at == count) return -1;
    int64_t border = int32_at(entries + at * ENTRY_BYTES + 4);
    uint8_t begins_with[8];
    ssize_t got;
    Py_INCREF(file);
    Py_BEGIN_ALLOW_THREADS
    got = pread((int)descriptor, begins_with, sizeof begins_with, (off_t)border);
    Py_END_ALLOW_THREADS
    Py_DECREF(file);
    return got == sizeof begins_with && int64_at(begins_with) == offset ? border : -1;
}

static int64_t find(PyObject *segment, int64_t offset) {
    int64_t base_offset, position = remembered(SLOT(segment, segment_recent), offset);
    if (position < 0) position = remembered(SLOT(segment, segment_less_recent), offset);
    if (position >= 0) return position;
    if (!get(segment, segment_base_offset, &base_offset)) return -1;
    if (offset <= base_offset) return 0;
    position = indexed(segment, offset);
    return position >= 0 ? position : call(segment, name_find, offset, 0, 0, 1);
}

/* The twin of `scan.is_batch_at`: an index may be damaged, and an answer must not end within a batch. */
static int is_batch_at(PyObject *segment, int64_t position) {
    int64_t descriptor, least, most;
    PyObject *file = SLOT(segment, segment_file);
    if (!is_a(file, FILE_) || !get(file, file_descriptor, &descriptor) || !get(segment, segment_base_offset, &least) ||
        !get(segment, segment_last_offset_max, &most))
        return 0;
    uint8_t head[HEAD_BYTES];
    ssize_t got;
    Py_INCREF(file);
    Py_BEGIN_ALLOW_THREADS
    got = pread((int)descriptor, head, sizeof head, (off_t)position);
    Py_END_ALLOW_THREADS
    Py_DECREF(file);
    if (got != sizeof head || head[MAGIC_AT] != MAGIC || int32_at(head + 8) < BATCH_LENGTH_MIN) return 0;
    int64_t base_offset = int64_at(head), delta = int32_at(head + LAST_DELTA_AT);
    return least <= base_offset && base_offset <= most && delta >= 0 && delta <= most - base_offset;
}

/* Where to end at `limit` or before it. */
static int64_t cut(PyObject *segment, int64_t position, int64_t limit, int64_t end) {
    Py_ssize_t count;
    int64_t base_offset;
    const uint8_t *entries = entries_of(segment, &count, &base_offset);
    Py_ssize_t at = entries == NULL ? 0 : entries_up_to(entries, count, 4, limit);
    int64_t border = at > 0 ? int32_at(entries + (at - 1) * ENTRY_BYTES + 4) : 0;
    return border > position && is_batch_at(segment, border) ? border : call(segment, name_cut, position, limit, end, 3);
}

/* The last of the segments that begins at or before `offset`; -1 if there is none. */
static Py_ssize_t segment_with(PyObject *base_offsets, int64_t offset) {
    Py_ssize_t low = 0, high = PyList_GET_SIZE(base_offsets);
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        int64_t base_offset;
        if (!number(PyList_GET_ITEM(base_offsets, middle), &base_offset)) return -1;
        if (base_offset > offset) high = middle;
        else low = middle + 1;
    }
    return low - 1;
}

static int are_lists(PyObject *segments, PyObject *base_offsets) {
    return segments != NULL && PyList_CheckExact(segments) && base_offsets != NULL && PyList_CheckExact(base_offsets) &&
           PyList_GET_SIZE(segments) == PyList_GET_SIZE(base_offsets) && PyList_GET_SIZE(segments) > 0;
}

/* The stretch of this segment from `position` on, which must end with a batch below `upper`. */
static int stretch(PyObject *segment, Part *part, int64_t position, int64_t end, int64_t max_bytes, int min_one_batch) {
    if (end - position > max_bytes) {
        end = cut(segment, position, position + max_bytes, end);
        if (end == position && min_one_batch) end = call(segment, name_batch_end, position, 0, 0, 1);
        if (end < 0) return 0;
    }
    if (end <= position) return 1;
    PyObject *file = SLOT(segment, segment_file);
    if (is_a(file, FILE_)) {
        put_object(segment, segment_used, Py_True);
        Py_INCREF(file);
    } else {
        file = PyObject_CallMethodNoArgs(segment, name_open_file);
        if (!is_a(file, FILE_)) {
            Py_XDECREF(file);
            return 0;
        }
    }
    part->file = file;
    part->position = position;
    part->length = end - position;
    return 1;
}

/* From `part->offset` on, which lies inside the log and below `upper`. Without records, `part->file` stays NULL. */
int read_log(PyObject *log, Part *part, int64_t max_bytes, int64_t upper, int min_one_batch) {
    PyObject *segments = SLOT(log, log_segments), *base_offsets = SLOT(log, log_base_offsets);
    PyObject *segment = SLOT(log, log_active);
    int64_t base_offset, log_end, size, end_offset;
    if (!are_lists(segments, base_offsets) || !is_a(segment, SEGMENT) || !get(log, log_end_offset, &log_end) ||
        !get(segment, segment_base_offset, &base_offset))
        return 0;
    Py_ssize_t last = PyList_GET_SIZE(segments) - 1, at = last;
    if (PyList_GET_ITEM(segments, last) != segment) return 0;
    if (part->offset < base_offset) {
        at = segment_with(base_offsets, part->offset);
        segment = at < 0 ? NULL : PyList_GET_ITEM(segments, at);
        if (!is_a(segment, SEGMENT)) return 0;
    }
    Py_INCREF(segment);
    int done = 0;
    int64_t position = find(segment, part->offset);
    if (position >= 0 && get(segment, segment_size, &size) && SLOT(log, log_segments) == segments &&
        PyList_GET_SIZE(segments) == last + 1 && PyList_GET_ITEM(segments, at) == segment &&
        (position < size || at == last)) { /* else the end of the segment was compacted away */
        done = at == last || number(PyList_GET_ITEM(base_offsets, at + 1), &end_offset);
        if (at == last) end_offset = log_end;
        int64_t end = !done || upper >= end_offset ? size : find(segment, upper);
        done = done && end >= 0 && stretch(segment, part, position, end, max_bytes, min_one_batch);
    }
    Py_DECREF(segment);
    return done;
}

/* Whether no transaction was aborted from `offset` on, as far as that is known without asking the disk. */
int has_no_aborted(PyObject *log, int64_t offset) {
    PyObject *segments = SLOT(log, log_segments), *base_offsets = SLOT(log, log_base_offsets);
    if (!are_lists(segments, base_offsets)) return 0;
    Py_ssize_t at = segment_with(base_offsets, offset);
    for (at = at < 0 ? 0 : at; at < PyList_GET_SIZE(segments); at++) {
        PyObject *segment = PyList_GET_ITEM(segments, at);
        PyObject *index = is_a(segment, SEGMENT) ? SLOT(segment, segment_transaction_index) : NULL;
        PyObject *aborted = is_a(index, TRANSACTION_INDEX) ? SLOT(index, transaction_index_aborted) : NULL;
        if (aborted == NULL || !PyList_CheckExact(aborted) || PyList_GET_SIZE(aborted)) return 0;
    }
    return 1;
}
