/* Columns in Arrow's layout: values side by side, offsets of what has no fixed width, a bit for each value once one is
 * null. */
#include "columns.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 1024

bool block_reserve(Block *block, size_t more) {
    if (block->capacity - block->used >= more)
        return true;
    size_t wanted = block->capacity ? block->capacity * 2 : FIRST_BYTES;
    while (wanted - block->used < more) {
        if (wanted > SIZE_MAX / 4)
            return false;
        wanted *= 2;
    }
    uint8_t *data = realloc(block->data, wanted);
    if (data == NULL)
        return false;
    block->data = data;
    block->capacity = wanted;
    return true;
}

static int set_bit(Block *bits, int64_t at, bool value) {
    size_t byte = (size_t)at >> 3;
    if (byte >= bits->used) {
        if (!block_reserve(bits, byte + 1 - bits->used))
            return NO_MEMORY;
        memset(bits->data + bits->used, 0, byte + 1 - bits->used);
        bits->used = byte + 1;
    }
    if (value)
        bits->data[byte] |= (uint8_t)(1u << (at & 7));
    return FINE;
}

/* The value at `length` is there. Called before the length grows. */
int column_mark_valid(Column *column) {
    return column->null_count ? set_bit(&column->validity, column->length, true) : FINE;
}

static int mark_null(Column *column) {
    if (column->null_count == 0) { /* all before it are valid */
        size_t bytes = (size_t)(column->length >> 3) + 1;
        if (!block_reserve(&column->validity, bytes))
            return NO_MEMORY;
        memset(column->validity.data, 0xff, bytes);
        column->validity.used = bytes;
        column->validity.data[bytes - 1] = (uint8_t)((1u << (column->length & 7)) - 1);
        column->null_count = 1;
        return FINE;
    }
    column->null_count++;
    return set_bit(&column->validity, column->length, false);
}

int column_append(Column *column, const void *value, size_t size) {
    if (!block_reserve(&column->values, size))
        return NO_MEMORY;
    memcpy(column->values.data + column->values.used, value, size);
    column->values.used += size;
    int status = column_mark_valid(column);
    column->length++;
    return status;
}

static int append_offset(Column *column, int64_t end) {
    if (end > INT32_MAX)
        return TOO_LARGE;
    int32_t offset = (int32_t)end;
    if (!block_reserve(&column->offsets, sizeof offset))
        return NO_MEMORY;
    memcpy(column->offsets.data + column->offsets.used, &offset, sizeof offset);
    column->offsets.used += sizeof offset;
    return FINE;
}

int column_append_variable(Column *column, const uint8_t *data, size_t size) {
    if (size > (size_t)INT32_MAX || column->values.used + size > (size_t)INT32_MAX)
        return TOO_LARGE;
    if (!block_reserve(&column->values, size))
        return NO_MEMORY;
    if (size)
        memcpy(column->values.data + column->values.used, data, size);
    column->values.used += size;
    int status = append_offset(column, (int64_t)column->values.used);
    if (status == FINE)
        status = column_mark_valid(column);
    column->length++;
    return status;
}

int column_append_bool(Column *column, bool value) {
    int status = set_bit(&column->values, column->length, value);
    if (status == FINE)
        status = column_mark_valid(column);
    column->length++;
    return status;
}

/* A list ends where the column inside it ends now. */
int column_end_list(Column *columns, int32_t index) {
    Column *column = &columns[index];
    int status = append_offset(column, columns[column->children[0]].length);
    if (status == FINE)
        status = column_mark_valid(column);
    column->length++;
    return status;
}

int column_append_null(Column *columns, int32_t index) {
    Column *column = &columns[index];
    int status = FINE;
    if (column->kind != COLUMN_NULL)
        status = mark_null(column);
    switch (column->kind) {
    case COLUMN_BOOL:
        if (status == FINE)
            status = set_bit(&column->values, column->length, false);
        break;
    case COLUMN_WIDE:
        if (!block_reserve(&column->values, (size_t)column->width))
            return NO_MEMORY;
        memset(column->values.data + column->values.used, 0, (size_t)column->width);
        column->values.used += (size_t)column->width;
        break;
    case COLUMN_VARIABLE:
        if (status == FINE)
            status = append_offset(column, (int64_t)column->values.used);
        break;
    case COLUMN_LIST:
        if (status == FINE)
            status = append_offset(column, columns[column->children[0]].length);
        break;
    case COLUMN_STRUCT:
        for (int32_t i = 0; i < column->child_count && status == FINE; i++)
            status = column_append_null(columns, column->children[i]);
        break;
    default:
        break;
    }
    column->length++;
    return status;
}

void column_free(Column *column) {
    free(column->values.data);
    free(column->offsets.data);
    free(column->validity.data);
}
