/* The hot path of Fetch, compiled: what its pieces share.
 *
 * module.c   the module, and the order of things
 * request.c  the frame, taken apart
 * session.c  fetch sessions: what an incremental request asks for, and what is noted after it
 * log.c      the twin of `Log.read`: a stretch of a segment's file
 * answer.c   the answer as bytes and file slices
 * sending.c  bytes and slices to a socket
 *
 * Until it is decided that a request is answered here, nothing is changed but caches; everything else goes the general
 * way, in Python.
 */
#ifndef HEADWATER_FETCH_H
#define HEADWATER_FETCH_H

#include "../slots.h"

enum { FIRST_WITH_START_OFFSET = 5, FIRST_WITH_SESSIONS = 7, FIRST_WITH_LEADER_EPOCH = 9, FIRST_WITH_RACK = 11 };
enum { FIRST_FLEXIBLE = 12, FIRST_TOPIC_ID = 13, FIRST_REPLICA_STATE = 15, FIRST_VERSION = 4, LAST_VERSION = 18 };
enum { TOPICS_MAX = 32, PARTS_MAX = 256, FINAL_EPOCH = -1, READ_COMMITTED = 1 };

enum type {
    PARTITION, LOG, SEGMENT, OFFSET_INDEX, TRANSACTION_INDEX, PRODUCERS, FILE_, SLICE, SESSIONS, SESSION, SPEC, RIGHTS,
    TYPES
};

/* Every slot that is used: its type, its name in C, its name in Python. */
#define SLOTS(X)                                                                                                        \
    X(PARTITION, partition_log, "log") X(PARTITION, partition_is_leader, "is_leader")                                   \
    X(PARTITION, partition_deleted, "deleted") X(PARTITION, partition_leader_epoch, "leader_epoch")                     \
    X(PARTITION, partition_high_watermark, "high_watermark") X(PARTITION, partition_bytes_out, "bytes_out")             \
    X(PARTITION, partition_in_sync, "in_sync") X(PARTITION, partition_topic_id, "topic_id")                             \
    X(LOG, log_start_offset, "log_start_offset") X(LOG, log_end_offset, "log_end_offset")                               \
    X(LOG, log_active, "active") X(LOG, log_segments, "segments") X(LOG, log_base_offsets, "base_offsets")              \
    X(LOG, log_producers, "producers")                                                                                  \
    X(SEGMENT, segment_base_offset, "base_offset") X(SEGMENT, segment_size, "size_bytes")                               \
    X(SEGMENT, segment_file, "file") X(SEGMENT, segment_recent, "recent")                                               \
    X(SEGMENT, segment_less_recent, "less_recent") X(SEGMENT, segment_offset_index, "_offset_index")                    \
    X(SEGMENT, segment_transaction_index, "_transaction_index") X(SEGMENT, segment_used, "recently_used")               \
    X(SEGMENT, segment_last_offset_max, "last_offset_max")                                                              \
    X(OFFSET_INDEX, index_base_offset, "base_offset") X(OFFSET_INDEX, index_entries, "entries")                         \
    X(TRANSACTION_INDEX, transaction_index_aborted, "aborted")                                                          \
    X(PRODUCERS, producers_ongoing, "ongoing") X(PRODUCERS, producers_ended, "ended")                                   \
    X(FILE_, file_descriptor, "_descriptor") X(FILE_, file_references, "_references")                                   \
    X(SLICE, slice_file, "file") X(SLICE, slice_position, "position") X(SLICE, slice_length, "length")                  \
    X(SESSIONS, sessions_by_id, "_sessions")                                                                            \
    X(SESSION, session_id, "session_id") X(SESSION, session_by_topic_id, "uses_topic_ids")                              \
    X(SESSION, session_epoch, "epoch") X(SESSION, session_specs, "specs") X(SESSION, session_used_ms, "last_used_ms")   \
    X(SPEC, spec_topic, "topic") X(SPEC, spec_topic_id, "topic_id") X(SPEC, spec_partition, "partition")                \
    X(SPEC, spec_offset, "fetch_offset") X(SPEC, spec_max_bytes, "max_bytes")                                           \
    X(SPEC, spec_leader_epoch, "current_leader_epoch") X(SPEC, spec_last_epoch, "last_fetched_epoch")                   \
    X(SPEC, spec_told_high_watermark, "told_high_watermark") X(SPEC, spec_told_start, "told_log_start_offset")          \
    X(SPEC, spec_found, "found") X(SPEC, spec_noted_ms, "noted_ms") X(SPEC, spec_log_start, "log_start_offset")         \
    X(RIGHTS, rights_broker, "broker") X(RIGHTS, rights_generation, "generation")                                       \
    X(RIGHTS, rights_deadline, "deadline_ns") X(RIGHTS, rights_readable, "readable")

#define DECLARE(type, name, text) extern Py_ssize_t name;
SLOTS(DECLARE)
#undef DECLARE

/* Names of attributes and methods that are asked for in Python. */
#define NAMES(X)                                                                                                        \
    X(by_wire_name, "partitions_by_wire_name") X(by_topic_id, "partitions_by_topic_id") X(config, "config")             \
    X(int, "int") X(fetch_max_bytes, "fetch.max.bytes") X(last_stable_offset, "last_stable_offset") X(find, "find")     \
    X(cut, "cut") X(batch_end, "batch_end") X(open_file, "open_file") X(release, "release") X(clock, "clock")           \
    X(monotonic_ms, "monotonic_ms") X(fetch_sessions, "fetch_sessions") X(replicas, "replicas") X(keeper, "keeper")     \
    X(follower_fetched, "follower_fetched") X(members, "members") X(image, "image")                                     \
    X(acl_generation, "acl_generation")

#define DECLARE(name, text) extern PyObject *name_##name;
NAMES(DECLARE)
#undef DECLARE

extern PyTypeObject *types[TYPES];

#include "../rights.h"

static inline int is_a(PyObject *object, enum type type) { return object != NULL && Py_TYPE(object) == types[type]; }
static inline int is_dict(PyObject *object) { return object != NULL && PyDict_CheckExact(object); }

/* What is asked of one partition, and then what it has. The objects are held: whatever is called may let go of its
 * own. */
typedef struct {
    int topic; /* which of the answer's */
    int32_t index;
    int64_t offset, max_bytes, leader_epoch, last_epoch, follower_start;
    PyObject *key, *spec; /* of a session */
    int is_changed;       /* the request says something else than the session knows */
    PyObject *partition;
    int64_t high_watermark, stable_offset, start_offset;
    PyObject *file; /* NULL: no records */
    int64_t position, length;
    int is_told;    /* stands in the answer */
} Part;

typedef struct {
    const uint8_t *name; /* or its id */
    Py_ssize_t name_bytes;
    PyObject *listed; /* its partitions, borrowed: one list for each topic */
} Topic;

typedef struct {
    int version, is_flexible, is_by_id, isolation;
    int32_t max_wait_ms, min_bytes, max_bytes, session_id, session_epoch, replica_id;
    int64_t replica_epoch;
    int topic_count, part_count;
    Topic topics[TOPICS_MAX];
    Part parts[PARTS_MAX];
} Request;

/* What will be answered. */
typedef struct {
    PyObject *broker, *sessions, *session; /* the last two NULL without a session; held */
    PyObject *rights;                      /* of the connection; NULL: whoever asks may read everything; borrowed */
    PyObject *keeper, *replica;            /* of a follower's fetch; held */
    int64_t now_ms;
    int topic_count, part_count, is_cut;
    int64_t size;
    Topic topics[TOPICS_MAX];
    Part parts[PARTS_MAX];
} Plan;

/* All of these: 1 done, 0 not plain. With 0 there may be an exception, which the general way will meet again. */
int read_request(const uint8_t *frame, Py_ssize_t at, Py_ssize_t end, int version, Request *r);
int plan_without_session(const Request *r, Plan *plan);
int plan_of_session(const Request *r, Plan *plan);
int note_session(const Request *r, Plan *plan);
int find_topic(PyObject *broker, const uint8_t *name, Py_ssize_t name_bytes, int is_by_id, Plan *plan, int *at);
int read_log(PyObject *log, Part *part, int64_t max_bytes, int64_t upper, int min_one_batch);
int has_no_aborted(PyObject *log, int64_t offset);
PyObject *answer(const Request *r, Plan *plan, int32_t correlation_id);
PyObject *send_chunks(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
