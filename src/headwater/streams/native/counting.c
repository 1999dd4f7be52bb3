/* Counts by key and by key and tumbling window, a run of records at once, over the rows of a store as `stores/formats.py` has them.
 *
 *     row of a count      timestamp (8, big endian), count (8)
 *     row of a window     segment (8), key, start of the window (8), sequence number (4), which is 0
 *
 * What these functions cannot do they leave to the caller, which has the same in Python: then they give None and have changed nothing. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static void put_long(char *at, int64_t number) {
    uint64_t bits = (uint64_t)number;
    for (int i = 7; i >= 0; i--, bits >>= 8)
        at[i] = (char)(bits & 0xFF);
}

static int64_t get_long(const char *at) {
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | (uint8_t)at[i];
    return (int64_t)bits;
}

/* What a store has: dicts, one after the other, then what `get` says; no row from `end` on, if it is no None. */
typedef struct {
    PyObject *layers, *end, *get;
} store;

/* The row that was found, a new reference, None where there is none; NULL when it cannot be read. */
static PyObject *find_row(PyObject *row, PyObject *fresh, const store *from) {
    PyObject *found = PyDict_GetItemWithError(fresh, row);
    for (Py_ssize_t i = 0; found == NULL && i < PyTuple_GET_SIZE(from->layers); i++) {
        if (PyErr_Occurred())
            return NULL;
        found = PyDict_GetItemWithError(PyTuple_GET_ITEM(from->layers, i), row);
    }
    if (found != NULL)
        return Py_NewRef(found);
    if (PyErr_Occurred())
        return NULL;
    if (from->end != Py_None) {
        int above = PyObject_RichCompareBool(row, from->end, Py_GE);
        if (above != 0)
            return above < 0 ? NULL : Py_NewRef(Py_None);
    }
    return PyObject_CallOneArg(from->get, row);
}

/* One record more in a row: puts it into `fresh`, and the count and the time into their places. */
static bool count_one(PyObject *row, int64_t time, PyObject *fresh, const store *from, PyObject **data, PyObject **stamp) {
    PyObject *found = find_row(row, fresh, from);
    if (found == NULL)
        return false;
    int64_t count = 1;
    if (found != Py_None) {
        if (!PyBytes_CheckExact(found) || PyBytes_GET_SIZE(found) != 16) {
            Py_DECREF(found);
            PyErr_SetString(PyExc_ValueError, "a row of a count has 16 bytes");
            return false;
        }
        int64_t before = get_long(PyBytes_AS_STRING(found));
        count = (int64_t)((uint64_t)get_long(PyBytes_AS_STRING(found) + 8) + 1);
        time = before > time ? before : time;
    }
    Py_DECREF(found);
    char bytes[16];
    put_long(bytes, time);
    put_long(bytes + 8, count);
    PyObject *made = PyBytes_FromStringAndSize(bytes, 16);
    *data = PyBytes_FromStringAndSize(bytes + 8, 8);
    *stamp = PyLong_FromLongLong(time);
    bool done = made != NULL && *data != NULL && *stamp != NULL && PyDict_SetItem(fresh, row, made) == 0;
    Py_XDECREF(made);
    return done;
}

PyDoc_STRVAR(count_rows_doc, "count_rows(rows, times, fresh, layers, end, get) -> (counts as bytes, times)\n\n"
                             "Rows that are counted, in order; `fresh` takes what becomes of them, `layers` and then `get` have what was.");

static PyObject *count_rows(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *rows, *times, *fresh;
    store from;
    if (!PyArg_ParseTuple(args, "O!O!O!O!OO", &PyList_Type, &rows, &PyList_Type, &times, &PyDict_Type, &fresh, &PyTuple_Type,
                          &from.layers, &from.end, &from.get))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from.layers); i++)
        if (!PyDict_Check(PyTuple_GET_ITEM(from.layers, i))) {
            PyErr_SetString(PyExc_TypeError, "a layer is a dict");
            return NULL;
        }
    Py_ssize_t size = PyList_GET_SIZE(rows);
    if (PyList_GET_SIZE(times) != size) {
        PyErr_SetString(PyExc_ValueError, "as many times as rows are needed");
        return NULL;
    }
    PyObject *counts = PyList_New(size), *stamps = PyList_New(size);
    bool done = counts != NULL && stamps != NULL;
    for (Py_ssize_t at = 0; done && at < size; at++) {
        PyObject *data = NULL, *stamp = NULL;
        if (PyList_GET_SIZE(rows) != size || PyList_GET_SIZE(times) != size) {
            PyErr_SetString(PyExc_RuntimeError, "the rows were changed while they were counted");
            done = false;
            break;
        }
        int64_t time = PyLong_AsLongLong(PyList_GET_ITEM(times, at));
        PyObject *row = Py_NewRef(PyList_GET_ITEM(rows, at));
        done = !(time == -1 && PyErr_Occurred()) && count_one(row, time, fresh, &from, &data, &stamp);
        Py_DECREF(row);
        if (data != NULL)
            PyList_SET_ITEM(counts, at, data);
        if (stamp != NULL)
            PyList_SET_ITEM(stamps, at, stamp);
    }
    PyObject *result = done ? PyTuple_Pack(2, counts, stamps) : NULL;
    Py_XDECREF(counts);
    Py_XDECREF(stamps);
    return result;
}

typedef struct {
    long long size, grace, interval, retention, observed, latest, oldest;
    long long late, nulls;
    PyObject *rows, *logged, *told, *keys, *times;
} windows;

static bool append_new(PyObject *list, PyObject *made) {
    if (made == NULL)
        return false;
    int failed = PyList_Append(list, made);
    Py_DECREF(made);
    return failed == 0;
}

/* The row of a record, and what its key is in the changelog and in the results. */
static bool add_window(windows *state, PyObject *key, PyObject *time, int64_t start) {
    Py_ssize_t size = PyBytes_GET_SIZE(key);
    PyObject *row = PyBytes_FromStringAndSize(NULL, size + 20);
    if (row == NULL)
        return false;
    char *at = PyBytes_AS_STRING(row);
    put_long(at, start / state->interval);
    memcpy(at + 8, PyBytes_AS_STRING(key), (size_t)size);
    put_long(at + 8 + size, start);
    memset(at + 16 + size, 0, 4);
    bool done = append_new(state->logged, PyBytes_FromStringAndSize(at + 8, size + 12)) &&
                append_new(state->told, PyBytes_FromStringAndSize(at + 8, size + 8)) && PyList_Append(state->keys, key) == 0 &&
                PyList_Append(state->times, time) == 0;
    if (!done)
        Py_DECREF(row);
    return done && append_new(state->rows, row);
}

/* 1: done, 0: it is one for the caller, -1: failed. */
static int place_one(windows *state, PyObject *key, PyObject *given) {
    if (key == Py_None) {
        state->nulls++;
        return 1;
    }
    int64_t time = PyLong_AsLongLong(given);
    if (time == -1 && PyErr_Occurred())
        return -1;
    if (!PyBytes_CheckExact(key) || time < 0 || time > (INT64_MAX >> 2))
        return 0;
    int64_t start = time / state->size * state->size;
    if (time > state->observed)
        state->observed = time;
    if (start + state->size <= state->observed - state->grace) {
        state->late++;
        return 1;
    }
    if (start < state->latest - state->retention + 1 || start / state->interval < state->oldest)
        return 0;
    if (start > state->latest)
        state->latest = start;
    return add_window(state, key, given, start) ? 1 : -1;
}

PyDoc_STRVAR(window_rows_doc, "window_rows(keys, times, size, grace, interval, retention, observed, latest, oldest)\n\n"
                              "-> None, or (rows, keys of the changelog, keys of results, keys, times, observed, latest, late, nulls)");

static PyObject *window_rows(PyObject *Py_UNUSED(module), PyObject *args) {
    windows state = {0};
    PyObject *keys, *times;
    if (!PyArg_ParseTuple(args, "O!O!LLLLLLL", &PyList_Type, &keys, &PyList_Type, &times, &state.size, &state.grace, &state.interval,
                          &state.retention, &state.observed, &state.latest, &state.oldest))
        return NULL;
    Py_ssize_t size = PyList_GET_SIZE(keys);
    if (PyList_GET_SIZE(times) != size || state.size < 1 || state.interval < 1) {
        PyErr_SetString(PyExc_ValueError, "as many times as keys, and windows and segments of a millisecond or more, are needed");
        return NULL;
    }
    const long long most = INT64_MAX >> 2; /* nothing overflows below */
    if (state.size > most || state.grace < 0 || state.grace > most || state.retention < 0 || state.retention > most)
        Py_RETURN_NONE;
    PyObject **lists[] = {&state.rows, &state.logged, &state.told, &state.keys, &state.times};
    int found = 1;
    for (int i = 0; i < 5; i++)
        if ((*lists[i] = PyList_New(0)) == NULL)
            found = -1;
    for (Py_ssize_t at = 0; found == 1 && at < size; at++)
        found = place_one(&state, PyList_GET_ITEM(keys, at), PyList_GET_ITEM(times, at));
    PyObject *result = NULL;
    if (found == 1)
        result = Py_BuildValue("OOOOOLLLL", state.rows, state.logged, state.told, state.keys, state.times, state.observed, state.latest,
                               state.late, state.nulls);
    else if (found == 0)
        result = Py_NewRef(Py_None);
    for (int i = 0; i < 5; i++)
        Py_XDECREF(*lists[i]);
    return result;
}

static PyMethodDef methods[] = {
    {"count_rows", count_rows, METH_VARARGS, count_rows_doc},
    {"window_rows", window_rows, METH_VARARGS, window_rows_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "headwater.streams._counting", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__counting(void) {
    return PyModule_Create(&definition);
}
