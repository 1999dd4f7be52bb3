/* Columns that grow: numbers, bitmaps, and binary ones. One without nulls has no bitmap: it is made at the first
 * null. */
#ifndef HEADWATER_COLUMN_H
#define HEADWATER_COLUMN_H

#include "codec.h"

typedef struct {
    growing offsets, data, bits; /* bits.data NULL: no null so far */
    int64_t null_count;
} binary_builder;

/* Bitmaps: made as long as they need be for `bits`, new bytes filled with `fill`. */
bool stretch_bits(growing *bitmap, int64_t bits, uint8_t fill);
/* Exactly `bits` long, with zeros up to the end of the last byte. */
void trim_bits(growing *bitmap, int64_t bits);
/* Room for so many more. */
bool binary_reserve(binary_builder *column, int64_t rows, size_t bytes);
/* Back to `rows`, from `rows_now`. */
void binary_cut(binary_builder *column, int64_t rows, int64_t rows_now, size_t bytes, int64_t null_count);
void binary_let_go(binary_builder *column);
/* Four objects: null count, validity, offsets, data. */
bool binary_finish(binary_builder *column, int64_t rows, PyObject **items);

static inline void put_int32(growing *column, int32_t number) {
    memcpy(column->data + column->used, &number, sizeof number);
    column->used += sizeof number;
}

static inline void put_int64(growing *column, int64_t number) {
    memcpy(column->data + column->used, &number, sizeof number);
    column->used += sizeof number;
}

static inline void set_bit(growing *bitmap, int64_t at) { bitmap->data[at >> 3] |= (uint8_t)(1 << (at & 7)); }

static inline void clear_bit(growing *bitmap, int64_t at) { bitmap->data[at >> 3] &= (uint8_t)~(1 << (at & 7)); }

/* There is room for it. */
static inline bool binary_append(binary_builder *column, const cell *found, int64_t row) {
    if (found->size_bytes > 0) {
        memcpy(column->data.data + column->data.used, found->data, (size_t)found->size_bytes);
        column->data.used += (size_t)found->size_bytes;
    } else if (found->size_bytes < 0) {
        if (!stretch_bits(&column->bits, row + 1, 0xFF))
            return false;
        clear_bit(&column->bits, row);
        column->null_count++;
    }
    put_int32(&column->offsets, (int32_t)column->data.used);
    return true;
}

#endif
