/* Batches that the broker itself writes: their header, and the varints of their records. */
#ifndef HEADWATER_BATCH_H
#define HEADWATER_BATCH_H

#include "append.h"

#include "../../records/native/crc32c.h"

enum { VARINT_BYTES_MAX = 10, PAIR_BYTES_MAX = 4 * VARINT_BYTES_MAX + 3, CONTROL = 32, CRC_AT = 17, ATTRIBUTES_AT = 21 };

static inline uint8_t *put_varint(uint8_t *p, Py_ssize_t value) { /* from -1 on */
    uint64_t left = (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
    for (; left > 127; left >>= 7) *p++ = (uint8_t)(left | 128);
    *p++ = (uint8_t)left;
    return p;
}

static inline Py_ssize_t varint_bytes(Py_ssize_t value) {
    uint8_t unused[VARINT_BYTES_MAX];
    return put_varint(unused, value) - unused;
}

/* One record. Attributes, timestamp delta and the number of headers are 0; NULL is a value that is none. */
static inline uint8_t *put_pair(uint8_t *p, Py_ssize_t delta, const void *key, Py_ssize_t key_bytes, const void *value,
                                Py_ssize_t value_bytes) {
    Py_ssize_t body_bytes = 2 + varint_bytes(delta) + varint_bytes(key_bytes) + key_bytes +
                            varint_bytes(value == NULL ? -1 : value_bytes) + value_bytes + 1;
    p = put_varint(p, body_bytes);
    p[0] = p[1] = 0;
    p = put_varint(put_varint(p + 2, delta), key_bytes);
    memcpy(p, key, (size_t)key_bytes);
    p = put_varint(p + key_bytes, value == NULL ? -1 : value_bytes);
    if (value != NULL) memcpy(p, value, (size_t)value_bytes);
    p += value_bytes;
    *p++ = 0;
    return p;
}

/* Over HEADER_BYTES in front of `count` records of one moment; `size` is that of the whole batch. CRC last. */
static inline void put_header(uint8_t *p, Py_ssize_t size, Py_ssize_t count, int64_t now_ms, int16_t attributes,
                              int64_t producer_id, int16_t producer_epoch) {
    put64(p, 0);
    put32(p + 8, (int32_t)(size - LENGTH_PREFIX_BYTES));
    put32(p + 12, -1);
    p[16] = MAGIC;
    put16(p + 21, attributes);
    put32(p + 23, (int32_t)(count - 1));
    put64(p + 27, now_ms);
    put64(p + 35, now_ms);
    put64(p + 43, producer_id);
    put16(p + 51, producer_epoch);
    put32(p + 53, -1);
    put32(p + 57, (int32_t)count);
    put32(p + CRC_AT, (int32_t)crc32c(p + ATTRIBUTES_AT, (size_t)(size - ATTRIBUTES_AT)));
}

/* Appends it without a look at its producer. The last offset; -1: nothing was changed, unless there is an exception. */
static inline int64_t append_own(Target *t, uint8_t *batch, Py_ssize_t size, Py_ssize_t count, int64_t now_ms) {
    int64_t bytes_max;
    Batch b = {.last_delta = (int32_t)(count - 1), .base_timestamp = now_ms, .max_timestamp = now_ms,
               .producer_id = -1, .wakes_all = 1};
    if (!get(t->log, log_own_bytes_max, &bytes_max) || size > bytes_max || !read_target(t, &b, size)) return -1;
    return append_batch(t, NULL, &b, batch, size) > 0 ? t->end_offset + b.last_delta : -1;
}

#endif
