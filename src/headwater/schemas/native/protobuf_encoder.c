/* Runs a program over one row of columns and writes a message. The columns are pyarrow's, cast to the schema's types
 * before. */
#include "output_bytes.h"
#include "protobuf_wire.h"

#include <string.h>

static int put_tag(Block *out, int32_t number, int32_t wire) {
    return put_varint(out, (uint64_t)(uint32_t)number << 3 | (uint32_t)wire);
}

/* The length of what was written since `start`, before it: one byte was left for it. */
static int close_length(Block *out, size_t start) {
    size_t size = out->used - start;
    if (size > INT32_MAX)
        return TOO_LARGE;
    uint8_t prefix[5];
    size_t count = 0;
    for (size_t rest = size;; rest >>= 7) {
        prefix[count++] = (uint8_t)(rest > 0x7f ? (rest & 0x7f) | 0x80 : rest);
        if (rest <= 0x7f)
            break;
    }
    if (!block_reserve(out, count))
        return NO_MEMORY;
    if (count > 1)
        memmove(out->data + start - 1 + count, out->data + start, size);
    memcpy(out->data + start - 1, prefix, count);
    out->used += count - 1;
    return FINE;
}

static int open_length(Block *out, size_t *start) {
    static const uint8_t room;
    int status = put(out, &room, 1);
    *start = out->used;
    return status;
}

static bool is_null(const Source *source, int64_t row) {
    int64_t bit = source->offset + row;
    return source->validity != NULL && !(source->validity[bit >> 3] >> (bit & 7) & 1);
}

/* The bits of a number, as its column has them. */
static uint64_t number_at(const Source *source, int32_t kind, int64_t row) {
    int64_t at = source->offset + row;
    uint32_t narrow;
    uint64_t wide;
    switch (kind) {
    case PB_BOOL:
        return source->values[at >> 3] >> (at & 7) & 1;
    case PB_FLOAT:
    case PB_INT32:
    case PB_UINT32:
    case PB_SINT32:
    case PB_FIXED32:
    case PB_SFIXED32:
    case PB_ENUM:
        memcpy(&narrow, source->values + at * 4, sizeof narrow);
        return narrow;
    default:
        memcpy(&wide, source->values + at * 8, sizeof wide);
        return wide;
    }
}

static int put_number(Block *out, int32_t kind, uint64_t bits) {
    switch (wire_of(kind)) {
    case FIXED64:
        return put(out, &bits, 8);
    case FIXED32:
        return put(out, &bits, 4);
    default:
        if (kind == PB_INT32 || kind == PB_ENUM)
            bits = (uint64_t)(int64_t)(int32_t)(uint32_t)bits; /* negative ones have ten bytes */
        else if (kind == PB_SINT32)
            bits = (uint32_t)((uint32_t)bits << 1) ^ (0u - ((uint32_t)bits >> 31));
        else if (kind == PB_SINT64)
            bits = (bits << 1) ^ (0u - (bits >> 63));
        return put_varint(out, bits);
    }
}

static int put_text(Block *out, const Source *source, int64_t row) {
    int32_t start = source->offsets[source->offset + row], end = source->offsets[source->offset + row + 1];
    int status = put_varint(out, (uint64_t)(end - start));
    return status == FINE && end > start ? put(out, source->values + start, (size_t)(end - start)) : status;
}

static bool is_empty_text(const Source *source, int64_t row) {
    return source->offsets[source->offset + row] == source->offsets[source->offset + row + 1];
}

static int put_time(Block *out, const Source *source, int32_t kind, int64_t row) {
    int64_t micros = (int64_t)number_at(source, PB_INT64, row);
    int64_t seconds = micros / 1000000, rest = micros % 1000000;
    if (rest < 0 && kind == PB_TIMESTAMP) { /* nanoseconds count forwards in a time, and have the sign of a duration */
        rest += 1000000;
        seconds--;
    }
    size_t start;
    int status = open_length(out, &start);
    if (status == FINE && seconds)
        status = put_tag(out, 1, VARINT) || put_varint(out, (uint64_t)seconds) ? NO_MEMORY : FINE;
    if (status == FINE && rest)
        status = put_tag(out, 2, VARINT) || put_varint(out, (uint64_t)(rest * 1000)) ? NO_MEMORY : FINE;
    return status == FINE ? close_length(out, start) : status;
}

static int put_wrapped(Block *out, const Source *source, int32_t kind, int64_t row) {
    size_t start;
    int status = open_length(out, &start);
    if (status != FINE)
        return status;
    if (wire_of(kind) == LENGTH) {
        if (!is_empty_text(source, row))
            status = put_tag(out, 1, LENGTH) ? NO_MEMORY : put_text(out, source, row);
    } else {
        uint64_t bits = number_at(source, kind, row);
        if (bits)
            status = put_tag(out, 1, wire_of(kind)) ? NO_MEMORY : put_number(out, kind, bits);
    }
    return status == FINE ? close_length(out, start) : status;
}

/* The value behind its tag. */
static int put_value(Encoder *encoder, const int32_t *field, const Source *source, int64_t row) {
    Block *out = &encoder->out;
    switch (field[PB_KIND]) {
    case PB_STRING:
    case PB_BYTES:
        return put_text(out, source, row);
    case PB_TIMESTAMP:
    case PB_DURATION:
        return put_time(out, source, field[PB_KIND], row);
    case PB_WRAPPER:
        return put_wrapped(out, source, field[PB_EXTRA], row);
    case PB_MESSAGE: {
        size_t start;
        if (field[PB_FLAGS] & PB_DELIMITED) {
            int status = message_encode(encoder, field[PB_EXTRA], row);
            return status == FINE ? put_tag(out, field[PB_NUMBER], END_GROUP) : status;
        }
        int status = open_length(out, &start);
        if (status == FINE)
            status = message_encode(encoder, field[PB_EXTRA], row);
        return status == FINE ? close_length(out, start) : status;
    }
    default:
        return put_number(out, field[PB_KIND], number_at(source, field[PB_KIND], row));
    }
}

static int put_tagged(Encoder *encoder, const int32_t *field, const Source *source, int64_t row) {
    int32_t wire = field[PB_FLAGS] & PB_DELIMITED ? GROUP : wire_of(field[PB_KIND]);
    int status = put_tag(&encoder->out, field[PB_NUMBER], wire);
    return status == FINE ? put_value(encoder, field, source, row) : status;
}

/* `field` names the column of the list; that of its items is the next one. */
static int put_items(Encoder *encoder, const int32_t *field, int64_t row) {
    const Source *list = &encoder->sources[field[PB_COLUMN]], *items = list + 1;
    if (is_null(list, row))
        return FINE;
    int32_t start = list->offsets[list->offset + row], end = list->offsets[list->offset + row + 1];
    int status = FINE;
    if (field[PB_FLAGS] & PB_PACKED) {
        size_t begin = 0;
        if (end > start) {
            status = put_tag(&encoder->out, field[PB_NUMBER], LENGTH);
            if (status == FINE)
                status = open_length(&encoder->out, &begin);
        }
        for (int32_t item = start; item < end && status == FINE; item++)
            status = is_null(items, item) ? UNEXPECTED_NULL : put_value(encoder, field, items, item);
        return status == FINE && end > start ? close_length(&encoder->out, begin) : status;
    }
    for (int32_t item = start; item < end && status == FINE; item++)
        status = is_null(items, item) ? UNEXPECTED_NULL : put_tagged(encoder, field, items, item);
    return status;
}

static bool is_zero(const int32_t *field, const Source *source, int64_t row) {
    int32_t kind = field[PB_KIND];
    if (kind == PB_STRING || kind == PB_BYTES)
        return is_empty_text(source, row);
    return wire_of(kind) != LENGTH && number_at(source, kind, row) == 0;
}

int message_encode(Encoder *encoder, int32_t place, int64_t row) {
    const int32_t *node = encoder->program + place;
    for (int32_t i = 0; i < node[1]; i++) {
        const int32_t *field = node + PB_HEAD_WORDS + i * PB_FIELD_WORDS;
        const Source *source = &encoder->sources[field[PB_COLUMN]];
        int status = FINE;
        if (field[PB_LABEL] == PB_REPEATED)
            status = put_items(encoder, field, row);
        else if (!is_null(source, row) && (field[PB_LABEL] == PB_EXPLICIT || !is_zero(field, source, row)))
            status = put_tagged(encoder, field, source, row);
        if (status == FINE && encoder->out.used > (size_t)INT32_MAX)
            status = TOO_LARGE;
        if (status != FINE)
            return status;
    }
    return FINE;
}
