/* Bytes and file slices to a socket, in order: the twin of `server/outbox.send_chunks`. */
#include "fetch.h"

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { SENDFILE_BYTES_MAX = 4 * 1024 * 1024 };

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
    int64_t sent = 0, position, source;
    if (is_a(chunk, SLICE)) {
        PyObject *file = SLOT(chunk, slice_file);
        if (!is_a(file, FILE_) || !get(file, file_descriptor, &source) || !get(chunk, slice_position, &position) ||
            !get(chunk, slice_length, length) || source < 0)
            return -1;
        Py_BEGIN_ALLOW_THREADS
        sent = send_slice(target, (int)source, position, *length);
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

/* send_chunks(descriptor, chunks): None when all of it is out, else (whole chunks, bytes of the next one). Slices that are out are released. */
PyObject *send_chunks(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    (void)module;
    if (count != 2 || types[0] == NULL || !PyList_CheckExact(args[1])) {
        PyErr_SetString(PyExc_TypeError, "send_chunks takes a descriptor and a list, after configure");
        return NULL;
    }
    long target = PyLong_AsLong(args[0]);
    if (PyErr_Occurred()) return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(args[1]); i++) {
        PyObject *chunk = PyList_GET_ITEM(args[1], i);
        int64_t length = 0, sent = send_one((int)target, chunk, i + 1 == PyList_GET_SIZE(args[1]), &length);
        if (sent != length) return Py_BuildValue("nL", i, (long long)(sent < 0 ? 0 : sent));
        if (is_a(chunk, SLICE)) {
            PyObject *released = PyObject_CallMethodNoArgs(chunk, name_release);
            if (released == NULL) return NULL;
            Py_DECREF(released);
        }
    }
    Py_RETURN_NONE;
}
