/* Bytes and file slices to a socket, in order: the twin of `server/outbox.send_chunks`.
 *
 * A small answer is put together and goes out in one call, its records read from the page cache: to copy a few
 * kilobytes costs less than the calls around a `sendfile`, and the other side is woken once. That is what a follower
 * gets that keeps up with its leader.
 */
#include "fetch.h"

#include <errno.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SENDFILE_BYTES_MAX = 4 * 1024 * 1024, TOGETHER_BYTES_MAX = 16 * 1024 };

/* Where a slice's bytes are. 0 if that cannot be told. */
static int find_slice(PyObject *slice, int *source, int64_t *position, int64_t *length) {
    int64_t descriptor;
    PyObject *file = SLOT(slice, slice_file);
    if (!is_a(file, FILE_) || !get(file, file_descriptor, &descriptor) || !get(slice, slice_position, position) ||
        !get(slice, slice_length, length) || descriptor < 0)
        return 0;
    *source = (int)descriptor;
    return 1;
}

/* Whether the page is in memory, as far as the file system can tell. */
static int is_warm(int source, int64_t position) {
    char byte;
    struct iovec one = {&byte, 1};
    return preadv2(source, &one, 1, (off_t)position, RWF_NOWAIT) >= 0 || errno != EAGAIN;
}

/* How much of the slice went out. Whatever stopped it is met again by whoever sends the rest. */
static int64_t send_slice(int target, int source, int64_t position, int64_t length) {
    off_t at = (off_t)position;
    int64_t end = position + length;
    if (!is_warm(source, position) || !is_warm(source, end - 1)) return 0;
    while (at < end) {
        int64_t left = end - at;
        ssize_t sent = sendfile(target, source, &at, (size_t)(left < SENDFILE_BYTES_MAX ? left : SENDFILE_BYTES_MAX));
        if (sent <= 0 && !(sent < 0 && errno == EINTR)) break;
    }
    return at - position;
}

static int64_t send_one(int target, PyObject *chunk, int is_last, int64_t *length) {
    int64_t sent = 0, position;
    int source;
    if (is_a(chunk, SLICE)) {
        if (!find_slice(chunk, &source, &position, length)) return -1;
        Py_BEGIN_ALLOW_THREADS
        sent = send_slice(target, source, position, *length);
        Py_END_ALLOW_THREADS
    } else if (PyBytes_CheckExact(chunk)) {
        *length = PyBytes_GET_SIZE(chunk);
        Py_BEGIN_ALLOW_THREADS
        do sent = send(target, PyBytes_AS_STRING(chunk), (size_t)*length, MSG_NOSIGNAL | (is_last ? 0 : MSG_MORE));
        while (sent < 0 && errno == EINTR);
        Py_END_ALLOW_THREADS
    } else
        return -1;
    return sent < 0 ? 0 : sent;
}

/* The chunk's bytes to `room`; how many. -1 if they are too many, not all in memory, or of a kind that is not known
 * here. */
static int64_t put_bytes(PyObject *chunk, char *room, int64_t left) {
    int64_t position, length;
    int source;
    if (PyBytes_CheckExact(chunk)) {
        length = PyBytes_GET_SIZE(chunk);
        if (length > left) return -1;
        memcpy(room, PyBytes_AS_STRING(chunk), (size_t)length);
        return length;
    }
    if (!is_a(chunk, SLICE) || !find_slice(chunk, &source, &position, &length) || length < 0 || length > left) return -1;
    struct iovec all = {room, (size_t)length};
    return preadv2(source, &all, 1, (off_t)position, RWF_NOWAIT) == length ? length : -1;
}

/* All chunks in one call, if they are small and in memory; how many bytes went out, or -1 if nothing was tried. */
static int64_t send_together(int target, PyObject *chunks) {
    char buffer[TOGETHER_BYTES_MAX];
    int64_t size = 0, sent, length;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(chunks); i++, size += length)
        if ((length = put_bytes(PyList_GET_ITEM(chunks, i), buffer + size, TOGETHER_BYTES_MAX - size)) < 0) return -1;
    Py_BEGIN_ALLOW_THREADS
    do sent = send(target, buffer, (size_t)size, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    Py_END_ALLOW_THREADS
    return sent < 0 ? 0 : sent;
}

/* How much of the chunk is out, of what went out together and is not counted yet. */
static int64_t part_of(int64_t *together, PyObject *chunk, int64_t *length) {
    int64_t position;
    int source;
    if (PyBytes_CheckExact(chunk)) *length = PyBytes_GET_SIZE(chunk);
    else if (!find_slice(chunk, &source, &position, length)) return -1;
    int64_t part = *together < *length ? *together : *length;
    *together -= part;
    return part;
}

/* send_chunks(descriptor, chunks): None when all of it is out, else (whole chunks, bytes of the next one). Slices that
 * are out are released. */
PyObject *send_chunks(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || types[0] == NULL || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "send_chunks takes a descriptor and a list, after configure");
        return NULL;
    }
    long target = PyLong_AsLong(args[0]);
    if (PyErr_Occurred()) return NULL;
    int64_t together = send_together((int)target, args[1]);
    int is_out = together >= 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); i++) {
        PyObject *chunk = PyList_GET_ITEM(args[1], i);
        int64_t length = 0, sent = is_out ? part_of(&together, chunk, &length)
                                          : send_one((int)target, chunk, i + 1 == PyList_GET_SIZE(args[1]), &length);
        if (sent != length) return Py_BuildValue("nL", i, (long long)(sent < 0 ? 0 : sent));
        if (is_a(chunk, SLICE)) {
            PyObject *released = PyObject_CallMethodNoArgs(chunk, name_release);
            if (released == NULL) return NULL;
            Py_DECREF(released);
        }
    }
    Py_RETURN_NONE;
}
