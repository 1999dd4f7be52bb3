/* Walks over the batches of a segment file and says how far they are good, what the indexes of the segment hold, and
 * which batches have to be looked at for more. What it does is told in codec.py; its twin is pure/scanning.py.
 *
 * The bytes may be anything: a crash may have left them. A field is read once, into a local, and checked before it is
 * used. The walk itself runs without the GIL: all memory that it may need is there before it begins, and it touches no
 * Python object.
 */
#include "codec.h"
#include "crc32c.h"
#include <structmember.h>

#define LENGTH_PREFIX_BYTES 12
#define MAGIC 2
#define MAGIC_AT 16
#define CRC_AT 17
#define ATTRIBUTES_AT 21
#define TRANSACTIONAL 0x10
#define CONTROL 0x20
#define BATCHES_KEPT 5 /* of a producer: producer_state.py */
#define PRODUCERS 1024
#define DROPPED (-1)
#define OFFSET_ENTRY_BYTES 8
#define TIME_ENTRY_BYTES 12

enum { GO_ON, BAD_HEADER, BAD_EPOCH, BAD_CRC, NO_INDEX_ENTRY };

/* A run of batches of one producer in the present piece, of which the first and the last five tell everything. */
typedef struct {
    int64_t producer_id; /* -1: none */
    int64_t recent[BATCHES_KEPT], count; /* places in `marks` of those that later ones make superfluous; how many there were */
    bool transactional; /* whether one of them is */
} producer_run;

typedef struct {
    PyObject_HEAD
    int64_t base_offset, check_from_offset, index_interval_bytes;
    int64_t valid_bytes, next_offset, latest_epoch, max_timestamp, max_timestamp_offset;
    int64_t bytes_since_index, last_time_entry;
    growing offset_entries, time_entries, marks; /* marks: int64, positions in the piece */
    bool busy;
    producer_run runs[PRODUCERS];
} batch_scanner;

typedef struct {
    int64_t base_offset, last_offset, leader_epoch, max_timestamp, producer_id, size_bytes;
    int32_t base_sequence;
    uint32_t crc;
    int16_t attributes;
} batch_header;

static uint64_t big_endian(const uint8_t *at, int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number = number << 8 | at[i];
    return number;
}

static int16_t int16_at(const uint8_t *at) { return (int16_t)big_endian(at, 2); }
static int32_t int32_at(const uint8_t *at) { return (int32_t)big_endian(at, 4); }
static int64_t int64_at(const uint8_t *at) { return (int64_t)big_endian(at, 8); }

static void put_big_endian(growing *memory, int64_t number, int bytes) {
    for (int i = bytes - 1; i >= 0; i--)
        memory->data[memory->used++] = (uint8_t)((uint64_t)number >> 8 * i);
}

/* False if the header makes no sense where `expected_offset` should come and `bytes_left` are in the file. */
static bool read_batch_header(const uint8_t *at, int64_t expected_offset, int64_t bytes_left, batch_header *header) {
    int32_t length = int32_at(at + 8), last_offset_delta = int32_at(at + 23);
    header->base_offset = int64_at(at);
    header->leader_epoch = int32_at(at + 12);
    header->crc = (uint32_t)big_endian(at + CRC_AT, 4);
    header->attributes = int16_at(at + ATTRIBUTES_AT);
    header->max_timestamp = int64_at(at + 35);
    header->producer_id = int64_at(at + 43);
    header->base_sequence = int32_at(at + 53);
    header->size_bytes = (int64_t)length + LENGTH_PREFIX_BYTES;
    return at[MAGIC_AT] == MAGIC && header->size_bytes >= HEADER_BYTES && header->base_offset >= expected_offset &&
           last_offset_delta >= 0 && header->size_bytes <= bytes_left &&
           !__builtin_add_overflow(header->base_offset, last_offset_delta, &header->last_offset) &&
           header->last_offset < INT64_MAX;
}

static int64_t *marks_of(batch_scanner *self) { return (int64_t *)(void *)self->marks.data; }

static int64_t mark(batch_scanner *self, int64_t at) {
    int64_t place = (int64_t)(self->marks.used / sizeof at);
    marks_of(self)[place] = at;
    self->marks.used += sizeof at;
    return place;
}

/* Marks the batch if it begins an epoch or says something about a producer, and takes back the mark of one that it
 * makes superfluous: five later ones are known, so no trace of it stays in the producer's state. That is so whatever
 * their epochs are, if they have sequences, no marker stands between them, and it does not begin a transaction. */
static void mark_what_matters(batch_scanner *self, const batch_header *header, int64_t at, bool new_epoch) {
    if (header->producer_id < 0) {
        if (new_epoch)
            mark(self, at);
        return;
    }
    producer_run *run = &self->runs[header->producer_id % PRODUCERS];
    bool known = run->producer_id == header->producer_id;
    int64_t place = mark(self, at);
    if (header->attributes & CONTROL) {
        if (known)
            run->producer_id = -1;
        return;
    }
    bool transactional = (header->attributes & TRANSACTIONAL) != 0;
    if (new_epoch || !known || header->base_sequence < 0 || (transactional && !run->transactional)) {
        run->transactional = transactional || (known && run->transactional);
        run->producer_id = header->producer_id;
        run->count = 0;
        return;
    }
    int64_t *oldest = &run->recent[run->count++ % BATCHES_KEPT];
    if (run->count > BATCHES_KEPT)
        marks_of(self)[*oldest] = DROPPED;
    *oldest = place;
}

/* Adds the largest timestamp so far, unless it stands there already. False: an index cannot hold its offset. */
static bool add_time_entry(batch_scanner *self) {
    if (self->max_timestamp <= self->last_time_entry)
        return true;
    int64_t relative_offset = self->max_timestamp_offset - self->base_offset;
    if (relative_offset > INT32_MAX)
        return false;
    put_big_endian(&self->time_entries, self->max_timestamp, 8);
    put_big_endian(&self->time_entries, relative_offset, 4);
    self->last_time_entry = self->max_timestamp;
    return true;
}

static bool take_batch(batch_scanner *self, const batch_header *header) {
    int64_t position = self->valid_bytes, relative_offset = header->last_offset - self->base_offset;
    self->next_offset = header->last_offset + 1;
    self->valid_bytes += header->size_bytes;
    if (header->max_timestamp > self->max_timestamp) {
        self->max_timestamp = header->max_timestamp;
        self->max_timestamp_offset = header->last_offset;
    }
    if (self->bytes_since_index > self->index_interval_bytes) {
        if (relative_offset > INT32_MAX || position > INT32_MAX)
            return false;
        put_big_endian(&self->offset_entries, relative_offset, 4);
        put_big_endian(&self->offset_entries, position, 4);
        if (!add_time_entry(self))
            return false;
        self->bytes_since_index = 0;
    }
    self->bytes_since_index += header->size_bytes;
    return true;
}

static int walk(batch_scanner *self, const uint8_t *data, int64_t size, int64_t bytes_left) {
    int64_t at = 0;
    batch_header header;
    while (size - at >= HEADER_BYTES) {
        if (!read_batch_header(data + at, self->next_offset, bytes_left - at, &header) ||
            header.last_offset - self->base_offset > INT32_MAX) /* no index could hold it: no segment reaches so far */
            return BAD_HEADER;
        bool checked = header.last_offset >= self->check_from_offset;
        if (checked && header.leader_epoch < self->latest_epoch)
            return BAD_EPOCH;
        if (checked || header.attributes & CONTROL) {
            if (header.size_bytes > size - at)
                return GO_ON;
            if (crc32c(data + at + ATTRIBUTES_AT, (size_t)(header.size_bytes - ATTRIBUTES_AT)) != header.crc)
                return BAD_CRC;
        }
        bool new_epoch = header.leader_epoch > self->latest_epoch;
        if (new_epoch)
            self->latest_epoch = header.leader_epoch;
        if (!take_batch(self, &header))
            return NO_INDEX_ENTRY;
        mark_what_matters(self, &header, at, new_epoch);
        at += header.size_bytes;
    }
    return GO_ON;
}

static PyObject *list_of_marks(batch_scanner *self) {
    const int64_t *marks = marks_of(self);
    size_t count = self->marks.used / sizeof *marks;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        if (marks[i] == DROPPED)
            continue;
        PyObject *number = PyLong_FromLongLong(marks[i]);
        if (number == NULL || PyList_Append(list, number) < 0)
            Py_CLEAR(list);
        Py_XDECREF(number);
    }
    return list;
}

static PyObject *refuse(const char *why) {
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

/* Memory for all that `size` bytes can bring. */
static bool make_room(batch_scanner *self, int64_t size) {
    size_t batches = (size_t)(size / HEADER_BYTES) + 1;
    self->marks.used = 0;
    return reserve(&self->marks, batches * sizeof(int64_t)) &&
           reserve(&self->offset_entries, batches * OFFSET_ENTRY_BYTES) &&
           reserve(&self->time_entries, (batches + 1) * TIME_ENTRY_BYTES);
}

static PyObject *feed(PyObject *object, PyObject *const *args, Py_ssize_t count) {
    batch_scanner *self = (batch_scanner *)object;
    Py_buffer data;
    if (!right_count(count, 2, 2, "feed"))
        return NULL;
    int64_t bytes_left = PyLong_AsLongLong(args[1]);
    if ((bytes_left == -1 && PyErr_Occurred()) || PyObject_GetBuffer(args[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    PyObject *found = NULL;
    if (self->busy) {
        refuse("the scanner is at work in another thread");
    } else if (data.len > bytes_left || bytes_left > INT64_MAX - self->valid_bytes) {
        refuse("more bytes than are left");
    } else if (make_room(self, data.len)) {
        int verdict;
        for (int i = 0; i < PRODUCERS; i++)
            self->runs[i].producer_id = -1;
        self->busy = true;
        Py_BEGIN_ALLOW_THREADS;
        verdict = walk(self, data.buf, data.len, bytes_left);
        Py_END_ALLOW_THREADS;
        PyObject *marks = verdict == NO_INDEX_ENTRY ? refuse("an offset or a position that an index cannot hold")
                                                    : list_of_marks(self);
        self->busy = false;
        if (marks != NULL)
            found = Py_BuildValue("(iN)", verdict, marks);
    }
    PyBuffer_Release(&data);
    return found;
}

static PyObject *entries_of(const growing *memory) {
    return PyByteArray_FromStringAndSize((const char *)memory->data, (Py_ssize_t)memory->used);
}

static PyObject *finish(PyObject *object, PyObject *Py_UNUSED(none)) {
    batch_scanner *self = (batch_scanner *)object;
    if (self->busy)
        return refuse("the scanner is at work in another thread");
    if (!reserve(&self->time_entries, TIME_ENTRY_BYTES))
        return NULL;
    if (!add_time_entry(self))
        return refuse("an offset or a position that an index cannot hold");
    PyObject *items[2] = {entries_of(&self->offset_entries), entries_of(&self->time_entries)};
    return tuple_of(&PyTuple_Type, 2, items);
}

static PyObject *scanner_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    long long base_offset, check_from_offset, index_interval_bytes, least_epoch;
    if (keywords != NULL && PyDict_GET_SIZE(keywords))
        return refuse("BatchScanner takes no names");
    if (!PyArg_ParseTuple(
            args, "LLLL:BatchScanner", &base_offset, &check_from_offset, &index_interval_bytes, &least_epoch))
        return NULL;
    if (base_offset < 0)
        return refuse("an offset below 0");
    batch_scanner *self = (batch_scanner *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->base_offset = self->next_offset = self->max_timestamp_offset = base_offset;
    self->check_from_offset = check_from_offset;
    self->index_interval_bytes = index_interval_bytes;
    self->latest_epoch = least_epoch;
    self->max_timestamp = self->last_time_entry = -1;
    return (PyObject *)self;
}

static void scanner_dealloc(PyObject *object) {
    batch_scanner *self = (batch_scanner *)object;
    let_go(&self->offset_entries);
    let_go(&self->time_entries);
    let_go(&self->marks);
    Py_TYPE(object)->tp_free(object);
}

static PyMemberDef scanner_fields[] = {
    {"valid_bytes", T_LONGLONG, offsetof(batch_scanner, valid_bytes), READONLY, NULL},
    {"next_offset", T_LONGLONG, offsetof(batch_scanner, next_offset), READONLY, NULL},
    {"latest_epoch", T_LONGLONG, offsetof(batch_scanner, latest_epoch), READONLY, NULL},
    {"max_timestamp", T_LONGLONG, offsetof(batch_scanner, max_timestamp), READONLY, NULL},
    {"max_timestamp_offset", T_LONGLONG, offsetof(batch_scanner, max_timestamp_offset), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef scanner_methods[] = {
    {"feed", (PyCFunction)(void (*)(void))feed, METH_FASTCALL, "See headwater.records.codec."},
    {"finish", finish, METH_NOARGS, "See headwater.records.codec."},
    {NULL, NULL, 0, NULL},
};

PyTypeObject batch_scanner_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater.records._codec.BatchScanner",
    .tp_doc = "Walks over the batches of a segment file. See headwater.records.codec.",
    .tp_basicsize = sizeof(batch_scanner),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = scanner_new,
    .tp_dealloc = scanner_dealloc,
    .tp_members = scanner_fields,
    .tp_methods = scanner_methods,
};

void prepare_scanning(void) { crc32c_prepare(); }
