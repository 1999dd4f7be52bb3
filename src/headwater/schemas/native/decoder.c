/* Runs a program over the bytes of one row. The bytes are a peer's: every length is looked at before it is used. The
 * program is ours. */
#include "columns.h"

#include <string.h>

#define DEPTH_MAX 400
#define EMPTY_ITEMS_MAX 100000

/* The operations; the numbers are program.py's. Arguments follow the number: columns, counts, places of other nodes. */
enum {
    OP_NULL,       /* column */
    OP_BOOL,       /* column */
    OP_INTEGER,    /* column, bits, form: 0 int32, 1 int64, 2 float, 3 double */
    OP_FLOAT,      /* column, form: 2 float, 3 double */
    OP_DOUBLE,     /* column */
    OP_BYTES,      /* column */
    OP_STRING,     /* column */
    OP_FIXED,      /* column, size */
    OP_ENUM,       /* column, count, the reader's index of each symbol or -1 */
    OP_DECIMAL,    /* column, size or -1, precision */
    OP_STRUCT,     /* column, count, nodes */
    OP_UNION,      /* count, nodes */
    OP_EMIT_NULL,  /* column */
    OP_LIST,       /* column, node */
    OP_MAP,        /* column, column of entries, column of keys, node */
    OP_DEFAULT,    /* node, start, length */
    OP_REFUSE,
    OP_SKIP_NOTHING,
    OP_SKIP_LONG,
    OP_SKIP_FIXED, /* size */
    OP_SKIP_BYTES,
    OP_SKIP_RECORD, /* count, nodes */
    OP_SKIP_ARRAY, /* node */
    OP_SKIP_MAP,   /* node */
};

static int read_long(Cursor *cursor, int64_t *value) {
    const uint8_t *at = cursor->at;
    if (at < cursor->end && *at < 0x80) { /* one byte: most of them */
        uint64_t byte = *at;
        cursor->at = at + 1;
        *value = (int64_t)(byte >> 1) ^ -(int64_t)(byte & 1);
        return FINE;
    }
    uint64_t bits = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at == cursor->end)
            return ENDS_EARLY;
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return BAD_NUMBER;
        bits |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            cursor->at = at;
            *value = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return FINE;
        }
    }
    return BAD_NUMBER;
}

static int read_bytes(Cursor *cursor, const uint8_t **data, size_t *size) {
    int64_t length;
    int status = read_long(cursor, &length);
    if (status != FINE)
        return status;
    if (length < 0 || length > cursor->end - cursor->at)
        return BAD_LENGTH;
    *data = cursor->at;
    *size = (size_t)length;
    cursor->at += length;
    return FINE;
}

/* Well-formed UTF-8, as Python has it: no surrogates, nothing longer than it must be. */
bool is_utf8(const uint8_t *at, size_t size) {
    const uint8_t *end = at + size;
    while (at < end) {
        while (end - at >= 8) {
            uint64_t eight;
            memcpy(&eight, at, 8);
            if (eight & 0x8080808080808080u)
                break;
            at += 8;
        }
        if (at == end)
            break;
        uint8_t first = *at;
        if (first < 0x80) {
            at++;
            continue;
        }
        int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
        if (first < 0xc2 || first > 0xf4 || end - at <= more)
            return false;
        uint8_t low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
        uint8_t high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
        if (at[1] < low || at[1] > high)
            return false;
        for (int i = 2; i <= more; i++)
            if ((at[i] & 0xc0) != 0x80)
                return false;
        at += more + 1;
    }
    return true;
}

static int take(Cursor *cursor, int64_t size, const uint8_t **data) {
    if (size > cursor->end - cursor->at)
        return ENDS_EARLY;
    *data = cursor->at;
    cursor->at += size;
    return FINE;
}

static int emit_integer(Decoder *decoder, const int32_t *node, Cursor *cursor) {
    int64_t value;
    int status = read_long(cursor, &value);
    if (status != FINE)
        return status;
    if (node[2] == 32 && (value > INT32_MAX || value < INT32_MIN))
        return BAD_NUMBER;
    Column *column = &decoder->columns[node[1]];
    switch (node[3]) {
    case 0: {
        int32_t narrow = (int32_t)value;
        return column_append(column, &narrow, sizeof narrow);
    }
    case 1:
        return column_append(column, &value, sizeof value);
    case 2: {
        float number = (float)(double)value; /* as Python does: to a double, then to a float */
        return column_append(column, &number, sizeof number);
    }
    default: {
        double number = (double)value;
        return column_append(column, &number, sizeof number);
    }
    }
}

static int emit_float(Decoder *decoder, const int32_t *node, Cursor *cursor) {
    const uint8_t *data;
    int status = take(cursor, 4, &data);
    if (status != FINE)
        return status;
    if (node[2] == 2)
        return column_append(&decoder->columns[node[1]], data, 4);
    float number;
    memcpy(&number, data, sizeof number);
    double wide = number;
    return column_append(&decoder->columns[node[1]], &wide, sizeof wide);
}

/* Big-endian two's complement of any length, to 16 bytes little-endian; no more than `precision` digits. */
static int emit_decimal(Decoder *decoder, const int32_t *node, Cursor *cursor) {
    const uint8_t *data;
    size_t size = (size_t)node[2];
    int status = node[2] < 0 ? read_bytes(cursor, &data, &size) : take(cursor, node[2], &data);
    if (status != FINE)
        return status;
    uint8_t fill = size && data[0] & 0x80 ? 0xff : 0;
    while (size > 16) { /* what does not fit must be sign alone */
        if (data[0] != fill)
            return BAD_DECIMAL;
        data++;
        size--;
    }
    if (size && ((data[0] ^ fill) & 0x80))
        return BAD_DECIMAL;
    uint8_t little[16];
    memset(little, fill, sizeof little);
    for (size_t i = 0; i < size; i++)
        little[i] = data[size - 1 - i];
    __int128 value;
    memcpy(&value, little, sizeof value);
    __int128 limit = 1;
    for (int32_t i = 0; i < node[3]; i++)
        limit *= 10;
    if (value >= limit || value <= -limit)
        return BAD_DECIMAL;
    return column_append(&decoder->columns[node[1]], little, sizeof little);
}

static int emit_enum(Decoder *decoder, const int32_t *node, Cursor *cursor) {
    int64_t index;
    int status = read_long(cursor, &index);
    if (status != FINE)
        return status;
    if (index < 0 || index >= node[2] || node[3 + index] < 0)
        return BAD_SYMBOL;
    return column_append(&decoder->columns[node[1]], &node[3 + index], sizeof node[0]);
}

/* The items of a block that comes next; 0 at the end. */
static int read_block(Cursor *cursor, int64_t *count) {
    int status = read_long(cursor, count);
    if (status != FINE || *count >= 0)
        return status != FINE ? status : *count > cursor->end - cursor->at && *count > EMPTY_ITEMS_MAX ? TOO_MANY : FINE;
    int64_t size;
    status = read_long(cursor, &size);
    if (status != FINE)
        return status;
    if (size < 0 || size > cursor->end - cursor->at)
        return BAD_LENGTH;
    if (*count == INT64_MIN)
        return TOO_MANY;
    *count = -*count;
    return *count > cursor->end - cursor->at && *count > EMPTY_ITEMS_MAX ? TOO_MANY : FINE;
}

/* The items of a list or map, or of one that is passed over (`list` and `keys` are -1 then, `skip_keys` tells a
 * map). */
static int run_items(Decoder *decoder, int32_t entries, int32_t keys, bool skip_keys, int32_t node, Cursor *cursor) {
    for (;;) {
        int64_t count;
        int status = read_block(cursor, &count);
        if (status != FINE || count == 0)
            return status;
        for (int64_t i = 0; i < count; i++) {
            const uint8_t *before = cursor->at;
            if (keys >= 0 || skip_keys) {
                const uint8_t *data;
                size_t size;
                status = read_bytes(cursor, &data, &size);
                if (status != FINE)
                    return status;
                if (keys >= 0 && !is_utf8(data, size))
                    return BAD_UTF8;
                if (keys >= 0 && (status = column_append_variable(&decoder->columns[keys], data, size)) != FINE)
                    return status;
            }
            status = decoder_run(decoder, node, cursor);
            if (status != FINE)
                return status;
            if (entries >= 0)
                decoder->columns[entries].length++;
            if (cursor->at == before && ++decoder->empty_items > EMPTY_ITEMS_MAX)
                return TOO_MANY;
        }
    }
}

static int run_nodes(Decoder *decoder, const int32_t *nodes, int32_t count, Cursor *cursor) {
    for (int32_t i = 0; i < count; i++) {
        int status = decoder_run(decoder, nodes[i], cursor);
        if (status != FINE)
            return status;
    }
    return FINE;
}

static int run_deeper(Decoder *decoder, const int32_t *node, Cursor *cursor) {
    Column *columns = decoder->columns;
    int64_t number;
    int status;
    switch (node[0]) {
    case OP_STRUCT:
        status = run_nodes(decoder, node + 3, node[2], cursor);
        if (status == FINE)
            status = column_mark_valid(&columns[node[1]]);
        columns[node[1]].length++;
        return status;
    case OP_UNION:
        status = read_long(cursor, &number);
        if (status != FINE)
            return status;
        if (number < 0 || number >= node[1])
            return BAD_BRANCH;
        return decoder_run(decoder, node[2 + number], cursor);
    case OP_LIST:
        status = run_items(decoder, -1, -1, false, node[2], cursor);
        return status == FINE ? column_end_list(columns, node[1]) : status;
    case OP_MAP:
        status = run_items(decoder, node[2], node[3], false, node[4], cursor);
        return status == FINE ? column_end_list(columns, node[1]) : status;
    case OP_DEFAULT: {
        Cursor constant = {decoder->defaults + node[2], decoder->defaults + node[2] + node[3]};
        return decoder_run(decoder, node[1], &constant);
    }
    case OP_SKIP_RECORD:
        return run_nodes(decoder, node + 2, node[1], cursor);
    case OP_SKIP_ARRAY:
        return run_items(decoder, -1, -1, false, node[1], cursor);
    case OP_SKIP_MAP:
        return run_items(decoder, -1, -1, true, node[1], cursor);
    default:
        return NOT_READABLE;
    }
}

int decoder_run(Decoder *decoder, int32_t place, Cursor *cursor) {
    const int32_t *node = decoder->program + place;
    const uint8_t *data;
    size_t size;
    int64_t number;
    int status;
    switch (node[0]) {
    case OP_NULL:
        decoder->columns[node[1]].length++;
        return FINE;
    case OP_BOOL:
        status = take(cursor, 1, &data);
        return status == FINE ? column_append_bool(&decoder->columns[node[1]], *data != 0) : status;
    case OP_INTEGER:
        return emit_integer(decoder, node, cursor);
    case OP_FLOAT:
        return emit_float(decoder, node, cursor);
    case OP_DOUBLE:
        status = take(cursor, 8, &data);
        return status == FINE ? column_append(&decoder->columns[node[1]], data, 8) : status;
    case OP_BYTES:
    case OP_STRING:
        status = read_bytes(cursor, &data, &size);
        if (status == FINE && node[0] == OP_STRING && !is_utf8(data, size))
            status = BAD_UTF8;
        return status == FINE ? column_append_variable(&decoder->columns[node[1]], data, size) : status;
    case OP_FIXED:
        status = take(cursor, node[2], &data);
        return status == FINE ? column_append(&decoder->columns[node[1]], data, (size_t)node[2]) : status;
    case OP_ENUM:
        return emit_enum(decoder, node, cursor);
    case OP_DECIMAL:
        return emit_decimal(decoder, node, cursor);
    case OP_EMIT_NULL:
        return column_append_null(decoder->columns, node[1]);
    case OP_REFUSE:
        return NOT_READABLE;
    case OP_SKIP_NOTHING:
        return FINE;
    case OP_SKIP_LONG:
        return read_long(cursor, &number);
    case OP_SKIP_FIXED:
        return take(cursor, node[1], &data);
    case OP_SKIP_BYTES:
        return read_bytes(cursor, &data, &size);
    default:
        break;
    }
    if (decoder->depth >= DEPTH_MAX)
        return TOO_DEEP;
    decoder->depth++;
    status = run_deeper(decoder, node, cursor);
    decoder->depth--;
    return status;
}
