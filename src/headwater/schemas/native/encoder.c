/* Runs a program over one row of columns. The columns are pyarrow's, cast to the schema's types before; lengths were
 * looked at there. */
#include "encoder.h"
#include "output_bytes.h"

#include <string.h>

/* The operations; the numbers are encoder.py's. Arguments follow: the column, then what is told. */
enum {
    OP_NULL,
    OP_BOOL,
    OP_INT32,
    OP_INT64,
    OP_FIXED,    /* size: also floats and doubles, whose bytes are Avro's */
    OP_VARIABLE,
    OP_DECIMAL,  /* size, or -1 for bytes */
    OP_STRUCT,   /* count, nodes */
    OP_NULLABLE, /* branch of null, branch of the value, node */
    OP_LIST,     /* node */
    OP_MAP,      /* column of keys, node */
};

static int put_long(Block *out, int64_t value) {
    return put_varint(out, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

static bool is_null(const Source *source, int64_t row) {
    int64_t bit = source->offset + row;
    return source->validity != NULL && !(source->validity[bit >> 3] >> (bit & 7) & 1);
}

static int put_variable(Block *out, const Source *source, int64_t row) {
    int32_t start = source->offsets[source->offset + row], end = source->offsets[source->offset + row + 1];
    int status = put_long(out, end - start);
    return status == FINE && end > start ? put(out, source->values + start, (size_t)(end - start)) : status;
}

/* 16 bytes little-endian to big-endian, as few as hold the sign, or as many as the schema says. */
static int put_decimal(Block *out, const uint8_t *little, int32_t size) {
    uint8_t sign = little[15] & 0x80 ? 0xff : 0;
    int needed = 16;
    while (needed > 1 && little[needed - 1] == sign && ((little[needed - 2] ^ sign) & 0x80) == 0)
        needed--;
    if (size >= 0 && needed > size)
        return BAD_DECIMAL;
    int total = size >= 0 ? size : needed;
    int status = size >= 0 ? FINE : put_long(out, needed);
    if (status != FINE || !block_reserve(out, (size_t)total))
        return status != FINE ? status : NO_MEMORY;
    for (int i = total - 1; i >= 0; i--)
        out->data[out->used++] = i < 16 ? little[i] : sign;
    return FINE;
}

static int put_items(Encoder *encoder, const Source *source, int32_t keys, int32_t node, int64_t row) {
    int32_t start = source->offsets[source->offset + row], end = source->offsets[source->offset + row + 1];
    int status = end > start ? put_long(&encoder->out, end - start) : FINE;
    for (int32_t item = start; item < end && status == FINE; item++) {
        if (keys >= 0)
            status = put_variable(&encoder->out, &encoder->sources[keys], item);
        if (status == FINE)
            status = encoder_run(encoder, node, item);
    }
    return status == FINE ? put_long(&encoder->out, 0) : status;
}

int encoder_run(Encoder *encoder, int32_t place, int64_t row) {
    const int32_t *node = encoder->program + place;
    const Source *source = &encoder->sources[node[1]];
    Block *out = &encoder->out;
    int64_t at = source->offset + row;
    if (node[0] == OP_NULLABLE) {
        bool null = is_null(source, row);
        int status = put_long(out, null ? node[2] : node[3]);
        return status == FINE && !null ? encoder_run(encoder, node[4], row) : status;
    }
    if (node[0] == OP_NULL)
        return FINE;
    if (is_null(source, row))
        return UNEXPECTED_NULL;
    switch (node[0]) {
    case OP_BOOL: {
        uint8_t bit = source->values[at >> 3] >> (at & 7) & 1;
        return put(out, &bit, 1);
    }
    case OP_INT32: {
        int32_t value;
        memcpy(&value, source->values + at * 4, sizeof value);
        return put_long(out, value);
    }
    case OP_INT64: {
        int64_t value;
        memcpy(&value, source->values + at * 8, sizeof value);
        return put_long(out, value);
    }
    case OP_FIXED:
        return put(out, source->values + at * node[2], (size_t)node[2]);
    case OP_VARIABLE:
        return put_variable(out, source, row);
    case OP_DECIMAL:
        return put_decimal(out, source->values + at * 16, node[2]);
    case OP_STRUCT: {
        int status = FINE;
        for (int32_t i = 0; i < node[2] && status == FINE; i++)
            status = encoder_run(encoder, node[3 + i], row);
        return status;
    }
    case OP_LIST:
        return put_items(encoder, source, -1, node[2], row);
    default:
        return put_items(encoder, source, node[2], node[3], row);
    }
}
