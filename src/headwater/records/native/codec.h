/* What the parts of the compiled codec share: the bytes of a record, read and written, and errors.
 *
 * The format is told in reader.py. Every length is checked against the bytes that are there before it is used; numbers
 * are int64_t, and sums that a peer could drive over the edge are checked. Nothing recurses.
 */
#ifndef HEADWATER_CODEC_H
#define HEADWATER_CODEC_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HEADER_BYTES 61
#define RECORD_BYTES_MIN 7
#define DATA_BYTES_MAX INT32_MAX /* what int32 offsets reach */
#define VARINT_BYTES_MAX 10
#define LOG_APPEND_TIME 0x08
#define ANY_PARTITION (-1)

/* Python classes of ours that C makes instances of. Set once, when the module is loaded. */
typedef struct {
    PyTypeObject *record;
    PyTypeObject *columns;
    PyTypeObject *header_columns;
    PyTypeObject *section;
    PyObject *corrupt;     /* record.corrupt(message) -> KafkaError */
    PyObject *kafka_error;
    PyObject *message_too_large;
    PyObject *empty_tuple;
} codec_classes;

extern codec_classes classes;
extern PyTypeObject memory_type, column_builder_type, batch_appender_type, batch_scanner_type;

PyObject *py_read_records(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *py_build_records(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *py_encode_columns(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *py_partition_keys(PyObject *, PyObject *const *, Py_ssize_t);
PyObject *py_murmur2(PyObject *, PyObject *);
PyObject *py_schema_frames(PyObject *, PyObject *const *, Py_ssize_t);
void prepare_scanning(void);

/* Both set the exception and return NULL. */
void *raise_corrupt(int64_t base_offset, const char *why);
void *raise_too_large(int64_t size_bytes);
bool right_count(Py_ssize_t got, Py_ssize_t least, Py_ssize_t most, const char *name);
/* An instance of a tuple class, with the `count` items, whose references it takes over (also when it fails). */
PyObject *tuple_of(PyTypeObject *type, Py_ssize_t count, PyObject **items);

/* ---- memory that grows ---- */

typedef struct {
    uint8_t *data;
    size_t used, capacity;
} growing;

bool grow(growing *memory, size_t more); /* false: no memory, and the exception is set */
void let_go(growing *memory);
/* Takes the memory over as an object with a buffer, and leaves `memory` empty. */
PyObject *memory_of(growing *memory);

static inline bool reserve(growing *memory, size_t more) {
    return memory->capacity - memory->used >= more || grow(memory, more);
}

/* ---- varints ---- */

/* Where the varint ends; NULL if the bytes end before it does, or if it has more than 64 bits. */
static inline const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, int64_t *number) {
    uint64_t raw = 0;
    if (at < end && *at < 0x80) {
        raw = *at++;
    } else {
        for (int shift = 0;; shift += 7) {
            if (at >= end || shift > 63)
                return NULL;
            uint64_t byte = *at++;
            if (shift == 63 && byte > 1)
                return NULL;
            raw |= (byte & 0x7F) << shift;
            if (byte < 0x80)
                break;
        }
    }
    *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
    return at;
}

static inline uint64_t zigzag(int64_t number) { return ((uint64_t)number << 1) ^ (uint64_t)(number >> 63); }

static inline int varint_bytes(int64_t number) {
    uint64_t raw = zigzag(number);
    int size = 1;
    while (raw > 0x7F) {
        raw >>= 7;
        size++;
    }
    return size;
}

static inline uint8_t *put_varint(uint8_t *at, int64_t number) {
    uint64_t raw = zigzag(number);
    while (raw > 0x7F) {
        *at++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *at++ = (uint8_t)raw;
    return at;
}

/* ---- a record in the bytes of its batch ---- */

typedef struct {
    const uint8_t *data;
    int64_t size_bytes; /* -1: null */
} cell;

typedef struct {
    int64_t base_offset, last_offset_delta, base_timestamp, append_timestamp, record_count;
    bool log_append_time;
} batch_facts;

typedef struct {
    int64_t offset, timestamp, header_count;
    cell key, value;
    const uint8_t *headers, *end; /* after the count; checked, so that next_header cannot fail if no Python ran since */
} raw_record;

/* False, with an exception, if `header` is no batch header, or says what cannot be of `payload_bytes`. */
bool read_facts(PyObject *header, Py_ssize_t payload_bytes, batch_facts *facts);
/* What follows the count of headers, up to the end of the record. */
bool check_headers(const raw_record *record, const char **why);
bool is_utf8(const uint8_t *at, const uint8_t *end);

static inline const uint8_t *read_cell(const uint8_t *at, const uint8_t *end, cell *found) {
    int64_t size_bytes;
    at = read_varint(at, end, &size_bytes);
    if (at == NULL || size_bytes < -1 || size_bytes > end - at)
        return NULL;
    found->data = at;
    found->size_bytes = size_bytes;
    return size_bytes < 0 ? at : at + size_bytes;
}

static inline const uint8_t *next_header(const uint8_t *at, const uint8_t *end, cell *key, cell *value) {
    *key = *value = (cell){NULL, -1}; /* a compiler cannot know that they have been checked */
    at = read_cell(at, end, key);
    return at == NULL ? NULL : read_cell(at, end, value);
}

/* Where the record ends; NULL if it is damaged, and `why` says how. Here, and not in a file of its own, for speed: it
 * becomes part of the loops over records. */
static inline const uint8_t *parse_record(
    const uint8_t *at, const uint8_t *end, const batch_facts *facts, raw_record *record, const char **why) {
    int64_t length, timestamp_delta, offset_delta;
    *why = "it ends inside a record";
    at = read_varint(at, end, &length);
    if (at == NULL || length < 1 || length > end - at)
        return NULL;
    end = at + length;
    at++; /* attributes: unused so far */
    if ((at = read_varint(at, end, &timestamp_delta)) == NULL || (at = read_varint(at, end, &offset_delta)) == NULL)
        return NULL;
    if ((at = read_cell(at, end, &record->key)) == NULL || (at = read_cell(at, end, &record->value)) == NULL)
        return NULL;
    if ((at = read_varint(at, end, &record->header_count)) == NULL)
        return NULL;
    record->headers = at;
    record->end = end;
    if ((record->header_count != 0 || at != end) && !check_headers(record, why))
        return NULL;
    if (offset_delta < 0 || offset_delta > facts->last_offset_delta) {
        *why = "a record with an offset outside of the batch";
        return NULL;
    }
    record->offset = facts->base_offset + offset_delta; /* fits: read_facts has seen to it */
    if (facts->log_append_time) {
        record->timestamp = facts->append_timestamp;
    } else if (__builtin_add_overflow(facts->base_timestamp, timestamp_delta, &record->timestamp)) {
        *why = "a record with a timestamp of more than 64 bits";
        return NULL;
    }
    return end;
}

#endif
