/* From Arrow's columns to Avro: the way back. See ../columns/encoder.py for its programs. */
#ifndef HEADWATER_SCHEMAS_ENCODER_H
#define HEADWATER_SCHEMAS_ENCODER_H

#include "columns.h"

/* A column to read: where its first row is, and Arrow's buffers (NULL: it has none). */
typedef struct {
    int64_t offset;
    const uint8_t *validity, *values;
    const int32_t *offsets;
} Source;

typedef struct {
    const int32_t *program;
    const Source *sources;
    Block out;
} Encoder;

enum { UNEXPECTED_NULL = NOT_READABLE + 1 };

int encoder_run(Encoder *encoder, int32_t node, int64_t row);

#endif
