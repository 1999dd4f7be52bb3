/* A Fetch request, taken apart: 0 for whatever is malformed or out of the ordinary. The general way tells what is
 * wrong. */
#include "fetch.h"

typedef struct {
    const uint8_t *at, *end;
    int is_flexible, is_bad;
} Cursor;

static const uint8_t nothing[16];

static const uint8_t *take(Cursor *c, Py_ssize_t count) {
    if (c->is_bad || count < 0 || c->end - c->at < count) {
        c->is_bad = 1;
        return nothing;
    }
    const uint8_t *found = c->at;
    c->at += count;
    return found;
}

static int32_t take32(Cursor *c) { return int32_at(take(c, 4)); }
static int64_t take64(Cursor *c) { return int64_at(take(c, 8)); }

static int32_t take_varint(Cursor *c) {
    uint32_t value = 0;
    for (int shift = 0; shift <= 21; shift += 7) {
        uint8_t byte = *take(c, 1);
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return (int32_t)value;
    }
    c->is_bad = 1;
    return 0;
}

/* The count of an array; null is out of the ordinary. */
static int32_t take_count(Cursor *c) {
    int32_t count = c->is_flexible ? take_varint(c) - 1 : take32(c);
    if (count < 0) c->is_bad = 1;
    return c->is_bad ? 0 : count;
}

static int32_t take_string_bytes(Cursor *c) {
    int32_t size = c->is_flexible ? take_varint(c) - 1 : int16_at(take(c, 2));
    if (size < 0) c->is_bad = 1;
    return c->is_bad ? 0 : size;
}

static void take_no_tags(Cursor *c) {
    if (c->is_flexible && *take(c, 1) != 0) c->is_bad = 1;
}

static void take_part(Cursor *c, const Request *r, Part *part) {
    part->index = take32(c);
    part->leader_epoch = r->version >= FIRST_WITH_LEADER_EPOCH ? take32(c) : -1;
    part->offset = take64(c);
    part->last_epoch = r->version >= FIRST_FLEXIBLE ? take32(c) : -1;
    part->follower_start = r->version >= FIRST_WITH_START_OFFSET ? take64(c) : -1;
    part->max_bytes = take32(c);
    take_no_tags(c);
    if (part->index < 0 || part->max_bytes < 0) c->is_bad = 1;
}

static void take_topics(Cursor *c, Request *r) {
    r->topic_count = take_count(c);
    if (r->topic_count > TOPICS_MAX) c->is_bad = 1;
    for (int i = 0; i < r->topic_count && !c->is_bad; i++) {
        Topic *topic = &r->topics[i];
        topic->name_bytes = r->is_by_id ? 16 : take_string_bytes(c);
        topic->name = take(c, topic->name_bytes);
        int32_t count = take_count(c);
        if (count == 0 || count > PARTS_MAX - r->part_count) c->is_bad = 1;
        while (count-- && !c->is_bad) {
            Part *part = &r->parts[r->part_count++];
            memset(part, 0, sizeof *part);
            part->topic = i;
            take_part(c, r, part);
        }
        take_no_tags(c);
    }
}

/* Behind all: nothing, or who follows. */
static void take_request_tags(Cursor *c, Request *r) {
    if (!c->is_flexible) return;
    uint8_t count = *take(c, 1);
    if (count == 0) return;
    const uint8_t *tag = take(c, 2);
    if (count != 1 || tag[0] != 1 || tag[1] != 13 || r->version < FIRST_REPLICA_STATE) {
        c->is_bad = 1;
        return;
    }
    r->replica_id = take32(c);
    r->replica_epoch = take64(c);
    take_no_tags(c);
}

int read_request(const uint8_t *frame, Py_ssize_t at, Py_ssize_t end, int version, Request *r) {
    Cursor c = {frame + at, frame + end, 0, 0};
    if (version < FIRST_VERSION || version > LAST_VERSION) return 0;
    int16_t client_id = int16_at(take(&c, 2));
    take(&c, client_id > 0 ? client_id : 0);
    r->version = version;
    r->is_flexible = c.is_flexible = version >= FIRST_FLEXIBLE;
    r->is_by_id = version >= FIRST_TOPIC_ID;
    r->part_count = 0;
    r->replica_epoch = -1;
    take_no_tags(&c);
    r->replica_id = version < FIRST_REPLICA_STATE ? take32(&c) : -1;
    r->max_wait_ms = take32(&c);
    r->min_bytes = take32(&c);
    r->max_bytes = take32(&c);
    r->isolation = *take(&c, 1);
    r->session_id = version >= FIRST_WITH_SESSIONS ? take32(&c) : 0;
    r->session_epoch = version >= FIRST_WITH_SESSIONS ? take32(&c) : FINAL_EPOCH;
    take_topics(&c, r);
    if (version >= FIRST_WITH_SESSIONS && take_count(&c) != 0) return 0; /* something is forgotten */
    if (version >= FIRST_WITH_RACK && take_string_bytes(&c) != 0) return 0;
    take_request_tags(&c, r);
    return !c.is_bad && c.at == c.end && r->max_bytes >= 0 && r->isolation <= READ_COMMITTED;
}
