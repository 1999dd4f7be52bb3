/* A batch that grows record by record. */
#ifndef HEADWATER_WRITER_H
#define HEADWATER_WRITER_H

#include "codec.h"

/* The batch is a bytearray that nobody else sees before it is done: room for the header, then the records. */
typedef struct {
    PyObject *batch; /* NULL: no record yet */
    int64_t used, count, base_timestamp, max_timestamp;
} writer;

/* 1: taken; 0: it would go past limit_bytes, and is not the first; -1: an exception. `headers` is their count and all
 * of them, encoded. Runs no Python code. */
int writer_append(
    writer *self, int64_t limit_bytes, int64_t timestamp, const cell *key, const cell *value, const cell *headers);
PyObject *writer_section(writer *self, int64_t partition); /* and is empty then */
void writer_clear(writer *self);
/* The size of a cell as it is written: its length and its bytes. */
static inline int64_t cell_bytes(const cell *found) {
    return varint_bytes(found->size_bytes) + (found->size_bytes > 0 ? found->size_bytes : 0);
}
uint8_t *put_cell(uint8_t *at, const cell *found);
bool append_cell(growing *memory, const cell *found);
extern const cell no_headers;

#endif
