/* Runs a program over the bytes of one message. The bytes are a peer's: every length is looked at before it is used.
 * The program is ours.
 *
 * A message is walked over once, and each occurrence of a field that the program knows is noted; then each column gets
 * its value. So fields may come in any order, the last of several wins, and parts of one message that come apart are
 * merged, by reading them as one. */
#include "protobuf_wire.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100
#define EMPTY_MAX 4000000
#define NUMBER_MAX ((1u << 29) - 1)

static int read_varint(Cursor *cursor, uint64_t *value) {
    const uint8_t *at = cursor->at;
    if (at < cursor->end && *at < 0x80) {
        *value = *at;
        cursor->at = at + 1;
        return FINE;
    }
    uint64_t bits = 0;
    for (int shift = 0; shift < 70; shift += 7) {
        if (at == cursor->end)
            return ENDS_EARLY;
        uint8_t byte = *at++;
        bits |= (uint64_t)(byte & 0x7f) << shift; /* what does not fit into 64 bits is left out, as everywhere */
        if (byte < 0x80) {
            cursor->at = at;
            *value = bits;
            return FINE;
        }
    }
    return BAD_NUMBER;
}

static int read_tag(Cursor *cursor, uint32_t *number, int32_t *wire) {
    uint64_t tag;
    int status = read_varint(cursor, &tag);
    if (status != FINE)
        return status;
    if (tag > UINT32_MAX || tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
        return BAD_TAG;
    *number = (uint32_t)(tag >> 3);
    *wire = (int32_t)(tag & 7);
    return FINE;
}

static int skip_group(Cursor *cursor, uint32_t number, int depth, const uint8_t **end);

/* What follows a tag. */
static int read_entry(Cursor *cursor, uint32_t number, int32_t wire, int depth, Entry *entry) {
    int status;
    *entry = (Entry){0, cursor->at, 0, wire, -1};
    switch (wire) {
    case VARINT:
        return read_varint(cursor, &entry->bits);
    case FIXED64:
    case FIXED32: {
        size_t size = wire == FIXED64 ? 8 : 4;
        if ((size_t)(cursor->end - cursor->at) < size)
            return ENDS_EARLY;
        memcpy(&entry->bits, cursor->at, size);
        cursor->at += size;
        return FINE;
    }
    case LENGTH: {
        uint64_t length;
        status = read_varint(cursor, &length);
        if (status != FINE)
            return status;
        if (length > (uint64_t)(cursor->end - cursor->at))
            return BAD_LENGTH;
        entry->at = cursor->at;
        entry->size = (size_t)length;
        cursor->at += length;
        return FINE;
    }
    case GROUP: {
        const uint8_t *end = cursor->at;
        status = skip_group(cursor, number, depth + 1, &end);
        entry->size = (size_t)(end - entry->at);
        return status;
    }
    default:
        return BAD_TAG;
    }
}

static int skip_group(Cursor *cursor, uint32_t number, int depth, const uint8_t **end) {
    if (depth > DEPTH_MAX)
        return TOO_DEEP;
    for (;;) {
        uint32_t inner;
        int32_t wire;
        Entry ignored;
        *end = cursor->at;
        int status = read_tag(cursor, &inner, &wire);
        if (status != FINE)
            return status;
        if (wire == END_GROUP)
            return inner == number ? FINE : BAD_TAG;
        status = read_entry(cursor, inner, wire, depth, &ignored);
        if (status != FINE)
            return status;
    }
}

static bool is_message(int32_t kind) { return kind >= PB_MESSAGE; }

static bool takes(const int32_t *field, int32_t wire) {
    int32_t wanted = wire_of(field[PB_KIND]);
    if (wire == wanted || (wire == GROUP && is_message(field[PB_KIND])))
        return true;
    return wire == LENGTH && field[PB_LABEL] == PB_REPEATED && wanted != LENGTH; /* packed */
}

/* The place of a field among those of its message; fields mostly come in order, so the one behind the last is looked at
 * first. */
static int32_t find_field(const int32_t *fields, int32_t count, int32_t guess, uint32_t number) {
    if (guess < count && (uint32_t)fields[guess * PB_FIELD_WORDS + PB_NUMBER] == number)
        return guess;
    int32_t low = 0, high = count;
    while (low < high) {
        int32_t middle = (low + high) / 2;
        if ((uint32_t)fields[middle * PB_FIELD_WORDS + PB_NUMBER] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && (uint32_t)fields[low * PB_FIELD_WORDS + PB_NUMBER] == number ? low : -1;
}

static Slot *slots_of(MessageDecoder *decoder, size_t base) { return (Slot *)(decoder->slots.data + base); }
static Entry *entry_at(MessageDecoder *decoder, int32_t index) { return (Entry *)decoder->entries.data + index; }

static int note(MessageDecoder *decoder, size_t base, const int32_t *node, int32_t field, const Entry *entry) {
    const int32_t *words = node + PB_HEAD_WORDS + field * PB_FIELD_WORDS;
    Slot *slot = slots_of(decoder, base) + field;
    int32_t oneof = words[PB_ONEOF];
    if (oneof >= 0) { /* the others of it are gone, and so is what this one was before them */
        Slot *holder = slots_of(decoder, base) + node[1] + oneof;
        if (holder->first != field)
            slot->first = slot->last = -1;
        holder->first = field;
    }
    if (slot->first >= 0 && words[PB_LABEL] != PB_REPEATED && !is_message(words[PB_KIND])) {
        *entry_at(decoder, slot->first) = *entry; /* the last one wins */
        return FINE;
    }
    if (!block_reserve(&decoder->entries, sizeof *entry))
        return NO_MEMORY;
    size_t index = decoder->entries.used / sizeof *entry;
    if (index >= INT32_MAX)
        return TOO_MANY;
    memcpy(decoder->entries.data + decoder->entries.used, entry, sizeof *entry);
    decoder->entries.used += sizeof *entry;
    if (slot->first < 0)
        slot->first = (int32_t)index;
    else
        entry_at(decoder, slot->last)->next = (int32_t)index;
    slot->last = (int32_t)index;
    return FINE;
}

static int scan(MessageDecoder *decoder, size_t base, const int32_t *node, Cursor cursor) {
    const int32_t *fields = node + PB_HEAD_WORDS;
    int32_t guess = 0;
    while (cursor.at < cursor.end) {
        uint32_t number;
        int32_t wire;
        Entry entry;
        int status = read_tag(&cursor, &number, &wire);
        if (status == FINE)
            status = read_entry(&cursor, number, wire, decoder->depth, &entry);
        if (status != FINE)
            return status;
        int32_t field = find_field(fields, node[1], guess, number);
        if (field < 0)
            continue;
        if (takes(fields + field * PB_FIELD_WORDS, wire)) {
            status = note(decoder, base, node, field, &entry);
            if (status != FINE)
                return status;
        }
        guess = fields[field * PB_FIELD_WORDS + PB_LABEL] == PB_REPEATED ? field : field + 1;
    }
    return FINE;
}

static uint32_t unzigzag32(uint32_t bits) { return (bits >> 1) ^ (0u - (bits & 1)); }
static uint64_t unzigzag64(uint64_t bits) { return (bits >> 1) ^ (0u - (bits & 1)); }

static int emit_number(Column *column, int32_t kind, uint64_t bits) {
    uint32_t narrow = (uint32_t)bits;
    switch (kind) {
    case PB_BOOL:
        return column_append_bool(column, bits != 0);
    case PB_SINT32:
        narrow = unzigzag32(narrow);
        return column_append(column, &narrow, sizeof narrow);
    case PB_SINT64:
        bits = unzigzag64(bits);
        return column_append(column, &bits, sizeof bits);
    case PB_FLOAT:
    case PB_INT32:
    case PB_UINT32:
    case PB_FIXED32:
    case PB_SFIXED32:
    case PB_ENUM:
        return column_append(column, &narrow, sizeof narrow);
    default:
        return column_append(column, &bits, sizeof bits);
    }
}

/* The bytes of a message that came in one piece or in several; `made` is to be freed. */
static int whole(MessageDecoder *decoder, int32_t first, const uint8_t **at, size_t *size, uint8_t **made) {
    const Entry *entry = entry_at(decoder, first);
    *made = NULL;
    *at = entry->at;
    *size = entry->size;
    if (entry->next < 0)
        return FINE;
    size_t total = 0;
    for (int32_t each = first; each >= 0; each = entry_at(decoder, each)->next)
        total += entry_at(decoder, each)->size;
    uint8_t *to = *made = malloc(total + 1);
    if (to == NULL)
        return NO_MEMORY;
    for (int32_t each = first; each >= 0; each = entry_at(decoder, each)->next) {
        entry = entry_at(decoder, each);
        if (entry->size)
            memcpy(to, entry->at, entry->size);
        to += entry->size;
    }
    *at = *made;
    *size = total;
    return FINE;
}

/* The last value of one field in a small message of the well-known types; zero if it is not there. */
static int find_in(Cursor cursor, uint32_t wanted, int32_t wire_wanted, int depth, Entry *found) {
    *found = (Entry){0, cursor.at, 0, wire_wanted, -1};
    while (cursor.at < cursor.end) {
        uint32_t number;
        int32_t wire;
        Entry entry;
        int status = read_tag(&cursor, &number, &wire);
        if (status == FINE)
            status = read_entry(&cursor, number, wire, depth, &entry);
        if (status != FINE)
            return status;
        if (number == wanted && wire == wire_wanted)
            *found = entry;
    }
    return FINE;
}

/* Seconds and nanoseconds as microseconds; what lies beyond 64 bits of them is refused. */
static int emit_time(MessageDecoder *decoder, Column *column, Cursor cursor) {
    Entry seconds, nanos;
    int status = find_in(cursor, 1, VARINT, decoder->depth, &seconds);
    if (status == FINE)
        status = find_in(cursor, 2, VARINT, decoder->depth, &nanos);
    if (status != FINE)
        return status;
    int64_t micros, rest = (int32_t)(uint32_t)nanos.bits;
    rest = rest >= 0 ? rest / 1000 : -((-rest + 999) / 1000); /* downwards */
    if (__builtin_mul_overflow((int64_t)seconds.bits, 1000000, &micros) || __builtin_add_overflow(micros, rest, &micros))
        return BAD_NUMBER;
    return column_append(column, &micros, sizeof micros);
}

static int emit_text(Column *column, int32_t kind, const uint8_t *at, size_t size) {
    if (kind == PB_STRING && !is_utf8(at, size))
        return BAD_UTF8;
    return column_append_variable(column, at, size);
}

static int emit_bytes(MessageDecoder *decoder, const int32_t *field, int32_t column, const uint8_t *at, size_t size) {
    Cursor cursor = {at, at + size};
    switch (field[PB_KIND]) {
    case PB_STRING:
    case PB_BYTES:
        return emit_text(&decoder->columns[column], field[PB_KIND], at, size);
    case PB_TIMESTAMP:
    case PB_DURATION:
        return emit_time(decoder, &decoder->columns[column], cursor);
    case PB_WRAPPER: {
        Entry found;
        int status = find_in(cursor, 1, wire_of(field[PB_EXTRA]), decoder->depth, &found);
        if (status != FINE)
            return status;
        if (wire_of(field[PB_EXTRA]) == LENGTH)
            return emit_text(&decoder->columns[column], field[PB_EXTRA], found.at, found.size);
        return emit_number(&decoder->columns[column], field[PB_EXTRA], found.bits);
    }
    default:
        return message_decode(decoder, field[PB_EXTRA], at, at + size);
    }
}

static int emit_packed(MessageDecoder *decoder, int32_t kind, int32_t column, Cursor cursor) {
    int32_t wire = wire_of(kind);
    while (cursor.at < cursor.end) {
        Entry entry;
        int status = read_entry(&cursor, 0, wire, decoder->depth, &entry);
        if (status == FINE)
            status = emit_number(&decoder->columns[column], kind, entry.bits);
        if (status != FINE)
            return status;
    }
    return FINE;
}

static int emit_items(MessageDecoder *decoder, const int32_t *field, int32_t first) {
    int32_t list = field[PB_COLUMN], items = decoder->columns[list].children[0];
    bool has_length = wire_of(field[PB_KIND]) == LENGTH;
    for (int32_t each = first; each >= 0;) {
        Entry entry = *entry_at(decoder, each);
        int status;
        if (has_length)
            status = emit_bytes(decoder, field, items, entry.at, entry.size);
        else if (entry.wire == LENGTH)
            status = emit_packed(decoder, field[PB_KIND], items, (Cursor){entry.at, entry.at + entry.size});
        else
            status = emit_number(&decoder->columns[items], field[PB_KIND], entry.bits);
        if (status != FINE)
            return status;
        each = entry.next;
    }
    return column_end_list(decoder->columns, list);
}

static int emit_absent(MessageDecoder *decoder, const int32_t *field) {
    static const uint8_t nothing[1];
    if (++decoder->empty > EMPTY_MAX)
        return TOO_MANY;
    if (field[PB_LABEL] == PB_EXPLICIT)
        return column_append_null(decoder->columns, field[PB_COLUMN]);
    if (wire_of(field[PB_KIND]) == LENGTH)
        return emit_bytes(decoder, field, field[PB_COLUMN], nothing, 0);
    return emit_number(&decoder->columns[field[PB_COLUMN]], field[PB_KIND], 0);
}

static int emit_field(MessageDecoder *decoder, size_t base, const int32_t *node, int32_t index) {
    const int32_t *field = node + PB_HEAD_WORDS + index * PB_FIELD_WORDS;
    int32_t first = slots_of(decoder, base)[index].first;
    if (field[PB_ONEOF] >= 0 && slots_of(decoder, base)[node[1] + field[PB_ONEOF]].first != index)
        first = -1;
    if (field[PB_LABEL] == PB_REPEATED)
        return emit_items(decoder, field, first);
    if (first < 0)
        return emit_absent(decoder, field);
    if (wire_of(field[PB_KIND]) != LENGTH)
        return emit_number(&decoder->columns[field[PB_COLUMN]], field[PB_KIND], entry_at(decoder, first)->bits);
    const uint8_t *at;
    size_t size;
    uint8_t *made;
    int status = whole(decoder, first, &at, &size, &made);
    if (status == FINE)
        status = emit_bytes(decoder, field, field[PB_COLUMN], at, size);
    free(made);
    return status;
}

int message_decode(MessageDecoder *decoder, int32_t place, const uint8_t *at, const uint8_t *end) {
    const int32_t *node = decoder->program + place;
    size_t base = decoder->slots.used, entries = decoder->entries.used;
    size_t size = (size_t)(node[1] + node[2]) * sizeof(Slot);
    if (decoder->depth >= DEPTH_MAX)
        return TOO_DEEP;
    if (!block_reserve(&decoder->slots, size + sizeof(Slot)))
        return NO_MEMORY;
    memset(decoder->slots.data + base, 0xff, size); /* -1 everywhere */
    decoder->slots.used += size;
    decoder->depth++;
    int status = scan(decoder, base, node, (Cursor){at, end});
    for (int32_t i = 0; i < node[1] && status == FINE; i++)
        status = emit_field(decoder, base, node, i);
    if (status == FINE)
        status = column_mark_valid(&decoder->columns[node[0]]);
    decoder->columns[node[0]].length++;
    decoder->depth--;
    decoder->slots.used = base;
    decoder->entries.used = entries;
    return status;
}

void message_decoder_free(MessageDecoder *decoder) {
    free(decoder->slots.data);
    free(decoder->entries.data);
}
