/* One record in the bytes of a batch. What comes in may be anything at all. */
#include "codec.h"

/* As strict as Python: no overlong forms, no surrogates, nothing over U+10FFFF. */
bool is_utf8(const uint8_t *at, const uint8_t *end) {
    while (at < end) {
        uint8_t lead = *at++;
        if (lead < 0x80)
            continue;
        int more;
        uint8_t low = 0x80, high = 0xBF; /* bounds of the second byte */
        if (lead >= 0xC2 && lead <= 0xDF) {
            more = 1;
        } else if (lead >= 0xE0 && lead <= 0xEF) {
            more = 2;
            if (lead == 0xE0)
                low = 0xA0;
            if (lead == 0xED)
                high = 0x9F;
        } else if (lead >= 0xF0 && lead <= 0xF4) {
            more = 3;
            if (lead == 0xF0)
                low = 0x90;
            if (lead == 0xF4)
                high = 0x8F;
        } else {
            return false;
        }
        if (end - at < more || *at < low || *at > high)
            return false;
        for (int i = 1; i < more; i++)
            if ((at[i] & 0xC0) != 0x80)
                return false;
        at += more;
    }
    return true;
}

bool check_headers(const raw_record *record, const char **why) {
    const uint8_t *at = record->headers, *end = record->end;
    if (record->header_count < 0 || record->header_count > end - at) {
        *why = "a record with more headers than it has room for";
        return false;
    }
    for (int64_t i = 0; i < record->header_count; i++) {
        cell key, value;
        at = read_cell(at, end, &key);
        if (at == NULL || key.size_bytes < 0) {
            *why = "a header without a key";
            return false;
        }
        if (!is_utf8(key.data, key.data + key.size_bytes)) {
            *why = "a header key that is not UTF-8";
            return false;
        }
        at = read_cell(at, end, &value);
        if (at == NULL) {
            *why = "it ends inside a header";
            return false;
        }
    }
    *why = "a record with less content than its length says";
    return at == end;
}

/* The places of the fields in batch.BatchHeader. */
enum { BASE_OFFSET = 0, ATTRIBUTES = 5, LAST_OFFSET_DELTA = 6, BASE_TIMESTAMP = 7, MAX_TIMESTAMP = 8, RECORD_COUNT = 12 };

bool read_facts(PyObject *header, Py_ssize_t payload_bytes, batch_facts *facts) {
    if (!PyTuple_Check(header) || PyTuple_GET_SIZE(header) != RECORD_COUNT + 1) {
        PyErr_SetString(PyExc_TypeError, "a BatchHeader is wanted");
        return false;
    }
    facts->base_offset = PyLong_AsLongLong(PyTuple_GET_ITEM(header, BASE_OFFSET));
    facts->last_offset_delta = PyLong_AsLongLong(PyTuple_GET_ITEM(header, LAST_OFFSET_DELTA));
    facts->base_timestamp = PyLong_AsLongLong(PyTuple_GET_ITEM(header, BASE_TIMESTAMP));
    facts->append_timestamp = PyLong_AsLongLong(PyTuple_GET_ITEM(header, MAX_TIMESTAMP));
    facts->record_count = PyLong_AsLongLong(PyTuple_GET_ITEM(header, RECORD_COUNT));
    long long attributes = PyLong_AsLongLong(PyTuple_GET_ITEM(header, ATTRIBUTES));
    if (PyErr_Occurred())
        return false;
    facts->log_append_time = (attributes & LOG_APPEND_TIME) != 0;
    if (facts->base_offset < 0 || facts->last_offset_delta < 0 || facts->record_count < 0 ||
        facts->base_offset >= INT64_MAX - facts->last_offset_delta)
        return raise_corrupt(facts->base_offset, "a negative field, or an end past the last offset there can be");
    if (facts->record_count > payload_bytes / RECORD_BYTES_MIN)
        return raise_corrupt(facts->base_offset, "fewer bytes than its records need");
    return true;
}
