/* Protobuf's bytes into columns, and columns into Protobuf. See ../columns/protobuf_program.py for the programs. */
#ifndef HEADWATER_SCHEMAS_PROTOBUF_H
#define HEADWATER_SCHEMAS_PROTOBUF_H

#include "encoder.h"

/* The kinds of a field; the numbers are protobuf_shapes.py's. */
enum {
    PB_DOUBLE,
    PB_FLOAT,
    PB_INT32,
    PB_INT64,
    PB_UINT32,
    PB_UINT64,
    PB_SINT32,
    PB_SINT64,
    PB_FIXED32,
    PB_FIXED64,
    PB_SFIXED32,
    PB_SFIXED64,
    PB_BOOL,
    PB_STRING,
    PB_BYTES,
    PB_ENUM,
    PB_MESSAGE,
    PB_TIMESTAMP,
    PB_DURATION,
    PB_WRAPPER, /* of another kind, which `extra` names */
};

enum { PB_IMPLICIT, PB_EXPLICIT, PB_REPEATED }; /* what a field is when it is absent: zero, null, an empty list */

/* A message: its column, how many fields, how many oneofs; then for each field, in the order of their numbers: */
enum { PB_NUMBER, PB_KIND, PB_LABEL, PB_COLUMN, PB_EXTRA, PB_ONEOF, PB_FLAGS, PB_FIELD_WORDS };
enum { PB_HEAD_WORDS = 3 };
enum { PB_PACKED = 1, PB_DELIMITED = 2 }; /* flags, for encoding */

enum { BAD_TAG = UNEXPECTED_NULL + 1, OTHER_MESSAGE };

/* One occurrence of a field in a message. */
typedef struct {
    uint64_t bits;      /* of a number */
    const uint8_t *at;  /* of what has a length */
    size_t size;
    int32_t wire, next; /* the next occurrence, or -1 */
} Entry;

typedef struct {
    int32_t first, last; /* entries, or -1 */
} Slot;

typedef struct {
    const int32_t *program;
    Column *columns;
    Block slots, entries;
    int depth;
    int64_t empty; /* values of this row that took no bytes */
} MessageDecoder;

int message_decode(MessageDecoder *decoder, int32_t node, const uint8_t *at, const uint8_t *end);
void message_decoder_free(MessageDecoder *decoder);
int message_encode(Encoder *encoder, int32_t node, int64_t row);

#endif
