/* How Protobuf writes values: the wire types, and that of each kind of field. For the decoder and the encoder. */
#ifndef HEADWATER_SCHEMAS_PROTOBUF_WIRE_H
#define HEADWATER_SCHEMAS_PROTOBUF_WIRE_H

#include "protobuf.h"

enum { VARINT, FIXED64, LENGTH, GROUP, END_GROUP, FIXED32 };

static inline int32_t wire_of(int32_t kind) {
    switch (kind) {
    case PB_DOUBLE:
    case PB_FIXED64:
    case PB_SFIXED64:
        return FIXED64;
    case PB_FLOAT:
    case PB_FIXED32:
    case PB_SFIXED32:
        return FIXED32;
    case PB_STRING:
    case PB_BYTES:
    case PB_MESSAGE:
    case PB_TIMESTAMP:
    case PB_DURATION:
    case PB_WRAPPER:
        return LENGTH;
    default:
        return VARINT;
    }
}

#endif
