/* What both encoders write with: bytes, and numbers of seven bits a byte. */
#ifndef HEADWATER_SCHEMAS_OUTPUT_BYTES_H
#define HEADWATER_SCHEMAS_OUTPUT_BYTES_H

#include <string.h>

#include "columns.h"

static inline int put(Block *out, const void *data, size_t size) {
    if (!block_reserve(out, size))
        return NO_MEMORY;
    if (size)
        memcpy(out->data + out->used, data, size);
    out->used += size;
    return FINE;
}

static inline int put_varint(Block *out, uint64_t bits) {
    if (!block_reserve(out, 10))
        return NO_MEMORY;
    while (bits > 0x7f) {
        out->data[out->used++] = (uint8_t)(bits | 0x80);
        bits >>= 7;
    }
    out->data[out->used++] = (uint8_t)bits;
    return FINE;
}

#endif
