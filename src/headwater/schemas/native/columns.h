/* Columns that grow while rows are decoded, and the interpreter that fills them. See ../columns/program.py for what
 * programs are. */
#ifndef HEADWATER_SCHEMAS_COLUMNS_H
#define HEADWATER_SCHEMAS_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *data;
    size_t used, capacity;
} Block;

/* The kinds of column; the numbers are program.py's. */
enum { COLUMN_NULL, COLUMN_BOOL, COLUMN_WIDE, COLUMN_VARIABLE, COLUMN_STRUCT, COLUMN_LIST };

typedef struct {
    int32_t kind;
    int32_t width;          /* of COLUMN_WIDE: bytes for each value */
    int32_t child_count;    /* of structs and lists: how many columns are inside, */
    const int32_t *children; /* and which */
    int64_t length, null_count;
    Block values, offsets, validity; /* validity is empty until there is a null */
} Column;

/* Why a row was refused; the numbers are decoder.py's. */
enum {
    FINE,
    NO_MEMORY,
    ENDS_EARLY,
    BYTES_LEFT,
    BAD_NUMBER,
    BAD_LENGTH,
    BAD_UTF8,
    BAD_BRANCH,
    BAD_SYMBOL,
    BAD_DECIMAL,
    TOO_DEEP,
    TOO_MANY,
    TOO_LARGE,
    NOT_READABLE,
};

typedef struct {
    const int32_t *program;
    Column *columns;
    const uint8_t *defaults;
    int depth;
    int64_t empty_items; /* items of lists that took no bytes, in this row */
} Decoder;

typedef struct {
    const uint8_t *at, *end;
} Cursor;

bool is_utf8(const uint8_t *at, size_t size);
bool block_reserve(Block *block, size_t more);
int column_append_null(Column *columns, int32_t index);
int column_append(Column *column, const void *value, size_t size);
int column_append_variable(Column *column, const uint8_t *data, size_t size);
int column_append_bool(Column *column, bool value);
int column_mark_valid(Column *column);
int column_end_list(Column *columns, int32_t index);
void column_free(Column *column);

int decoder_run(Decoder *decoder, int32_t node, Cursor *cursor);

#endif
