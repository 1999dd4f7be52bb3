/* Counts by key and by key and tumbling window, a run of records at once, over the rows of a store as
 * `stores/formats.py` has them.
 *
 *     row of a count      timestamp (8, big endian), count (8)
 *     row of a window     segment (8), key, start of the window (8), sequence number (4), which is 0
 *
 * What goes to topics is made as columns in Arrow's layout: the bytes of all cells, and where each begins (int64, one
 * more than cells); counts are 8 bytes each, times int64. So no object is made for a cell, and no time is lost where
 * columns are encoded into batches.
 *
 * What these functions cannot do they leave to the caller, which has the same in Python: then they give None and have
 * changed nothing. */
#include "packed_column.h"
#include "store_rows.h"

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

static bool is_count(PyObject *row) {
    if (PyBytes_CheckExact(row) && PyBytes_GET_SIZE(row) == 16)
        return true;
    PyErr_SetString(PyExc_ValueError, "a row of a count has 16 bytes");
    return false;
}

/* One record more in a row: puts it into `fresh`, and the count and the time into their places. */
static bool count_one(PyObject *row, int64_t time, PyObject *fresh, const store *from, char *data, int64_t *stamp) {
    PyObject *found = find_row(row, fresh, from);
    if (found == NULL)
        return false;
    int64_t count = 1;
    if (found != Py_None) {
        if (!is_count(found)) {
            Py_DECREF(found);
            return false;
        }
        int64_t before = get_long(PyBytes_AS_STRING(found));
        count = (int64_t)((uint64_t)get_long(PyBytes_AS_STRING(found) + 8) + 1);
        time = before > time ? before : time;
    }
    Py_DECREF(found);
    PyObject *made = PyBytes_FromStringAndSize(NULL, 16);
    if (made == NULL)
        return false;
    put_long(PyBytes_AS_STRING(made), time);
    put_long(PyBytes_AS_STRING(made) + 8, count);
    memcpy(data, PyBytes_AS_STRING(made) + 8, 8);
    *stamp = time;
    int failed = PyDict_SetItem(fresh, row, made);
    Py_DECREF(made);
    return failed == 0;
}

PyDoc_STRVAR(count_rows_doc, "count_rows(rows, times, fresh, layers, end, get) -> (counts, times): columns\n\n"
                             "Rows that are counted, in order; `fresh` takes what becomes of them, `layers` and then `get` have what was.");

static PyObject *count_rows(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *rows, *times, *fresh;
    store from;
    if (!PyArg_ParseTuple(args, "O!O!O!O!OO", &PyList_Type, &rows, &PyList_Type, &times, &PyDict_Type, &fresh, &PyTuple_Type,
                          &from.layers, &from.end, &from.get) ||
        !are_dicts(from.layers))
        return NULL;
    Py_ssize_t size = PyList_GET_SIZE(rows);
    if (PyList_GET_SIZE(times) != size) {
        PyErr_SetString(PyExc_ValueError, "as many times as rows are needed");
        return NULL;
    }
    PyObject *counts = PyBytes_FromStringAndSize(NULL, 8 * size), *stamps = PyBytes_FromStringAndSize(NULL, 8 * size);
    bool done = counts != NULL && stamps != NULL;
    for (Py_ssize_t at = 0; done && at < size; at++) {
        int64_t stamp = 0;
        if (PyList_GET_SIZE(rows) != size || PyList_GET_SIZE(times) != size) {
            PyErr_SetString(PyExc_RuntimeError, "the rows were changed while they were counted");
            done = false;
            break;
        }
        int64_t time = PyLong_AsLongLong(PyList_GET_ITEM(times, at));
        PyObject *row = Py_NewRef(PyList_GET_ITEM(rows, at));
        done = !(time == -1 && PyErr_Occurred()) && count_one(row, time, fresh, &from, PyBytes_AS_STRING(counts) + 8 * at, &stamp);
        Py_DECREF(row);
        memcpy(PyBytes_AS_STRING(stamps) + 8 * at, &stamp, sizeof stamp);
    }
    PyObject *result = done ? PyTuple_Pack(2, counts, stamps) : NULL;
    Py_XDECREF(counts);
    Py_XDECREF(stamps);
    return result;
}

/* 1: the row that was counted at this place is counted no more behind it, 0: it is, -1: failed. Each count of a row is
 * another one. */
static int is_last(PyObject *row, const char *count, PyObject *fresh, PyObject **value) {
    *value = PyDict_GetItemWithError(fresh, row);
    if (*value == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_KeyError, "a row that was not counted");
        return -1;
    }
    return !is_count(*value) ? -1 : memcmp(PyBytes_AS_STRING(*value) + 8, count, 8) == 0;
}

PyDoc_STRVAR(last_changes_doc, "last_changes(rows, counts, fresh, skipped) -> (keys, values)\n\n"
                               "Of the rows that `count_rows` has counted, and what it made of them: each row once, in the order of the last\n"
                               "record of each, without as many of its first bytes as are skipped.");

static PyObject *last_changes(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *rows, *counts, *fresh;
    Py_ssize_t skipped;
    if (!PyArg_ParseTuple(args, "O!O!O!n", &PyList_Type, &rows, &PyBytes_Type, &counts, &PyDict_Type, &fresh, &skipped))
        return NULL;
    Py_ssize_t size = PyList_GET_SIZE(rows);
    if (PyBytes_GET_SIZE(counts) != 8 * size || skipped < 0) {
        PyErr_SetString(PyExc_ValueError, "as many counts as rows are needed");
        return NULL;
    }
    PyObject *keys = PyList_New(0), *values = PyList_New(0);
    bool done = keys != NULL && values != NULL;
    for (Py_ssize_t at = 0; done && at < size; at++) {
        PyObject *row = PyList_GET_ITEM(rows, at), *value;
        if (!PyBytes_CheckExact(row) || PyBytes_GET_SIZE(row) < skipped) {
            PyErr_SetString(PyExc_ValueError, "a row is bytes, and longer than what is skipped");
            done = false;
            break;
        }
        int last = is_last(row, PyBytes_AS_STRING(counts) + 8 * at, fresh, &value);
        done = last >= 0;
        if (last == 1) {
            PyObject *key = skipped == 0 ? Py_NewRef(row)
                                         : PyBytes_FromStringAndSize(PyBytes_AS_STRING(row) + skipped, PyBytes_GET_SIZE(row) - skipped);
            done = key != NULL && PyList_Append(keys, key) == 0 && PyList_Append(values, value) == 0;
            Py_XDECREF(key);
        }
    }
    PyObject *result = done ? PyTuple_Pack(2, keys, values) : NULL;
    Py_XDECREF(keys);
    Py_XDECREF(values);
    return result;
}

PyDoc_STRVAR(split_counts_doc, "split_counts(rows) -> (counts, times): rows of counts as columns");

static PyObject *split_counts(PyObject *Py_UNUSED(module), PyObject *rows) {
    if (!PyList_CheckExact(rows)) {
        PyErr_SetString(PyExc_TypeError, "rows are a list");
        return NULL;
    }
    Py_ssize_t size = PyList_GET_SIZE(rows);
    PyObject *counts = PyBytes_FromStringAndSize(NULL, 8 * size), *stamps = PyBytes_FromStringAndSize(NULL, 8 * size);
    bool done = counts != NULL && stamps != NULL;
    for (Py_ssize_t at = 0; done && at < size; at++) {
        PyObject *row = PyList_GET_ITEM(rows, at);
        if (!(done = is_count(row)))
            break;
        int64_t stamp = get_long(PyBytes_AS_STRING(row));
        memcpy(PyBytes_AS_STRING(counts) + 8 * at, PyBytes_AS_STRING(row) + 8, 8);
        memcpy(PyBytes_AS_STRING(stamps) + 8 * at, &stamp, sizeof stamp);
    }
    PyObject *result = done ? PyTuple_Pack(2, counts, stamps) : NULL;
    Py_XDECREF(counts);
    Py_XDECREF(stamps);
    return result;
}

typedef struct {
    long long size, grace, interval, retention, observed, latest, oldest;
    long long late, nulls;
    PyObject *rows, *times;
    column logged, told, keys;
} windows;

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
    add_cell(&state->logged, at + 8, size + 12);
    add_cell(&state->told, at + 8, size + 8);
    add_cell(&state->keys, at + 8, size);
    bool done = PyList_Append(state->rows, row) == 0 && PyList_Append(state->times, time) == 0;
    Py_DECREF(row);
    return done;
}

/* 1: done, 0: it is one for the caller, -1: failed. */
static int place_one(windows *state, PyObject *key, PyObject *given) {
    if (key == Py_None) {
        state->nulls++;
        return 1;
    }
    if (!PyLong_CheckExact(given)) /* whatever else it is might run code of its own, and change the lists */
        return 0;
    int64_t time = PyLong_AsLongLong(given);
    if (time == -1 && PyErr_Occurred())
        return -1;
    if (time < 0 || time > (INT64_MAX >> 2))
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

static PyObject *windows_told(windows *state) {
    PyObject *logged = as_pair(&state->logged), *told = as_pair(&state->told), *keys = as_pair(&state->keys), *result = NULL;
    if (logged != NULL && told != NULL && keys != NULL)
        result = Py_BuildValue("OOOOOLLLL", state->rows, state->times, logged, told, keys, state->observed, state->latest, state->late,
                               state->nulls);
    Py_XDECREF(logged);
    Py_XDECREF(told);
    Py_XDECREF(keys);
    return result;
}

PyDoc_STRVAR(window_rows_doc, "window_rows(keys, times, size, grace, interval, retention, observed, latest, oldest)\n\n"
                              "-> None, or (rows, times, keys of the changelog, keys of results, keys, observed, latest, late, nulls).\n"
                              "Rows and times are lists, keys are columns: (offsets, data).");

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
    int64_t size_bytes = bytes_of(keys);
    if (state.size > most || state.grace < 0 || state.grace > most || state.retention < 0 || state.retention > most || size_bytes < 0)
        Py_RETURN_NONE;
    state.rows = PyList_New(0);
    state.times = PyList_New(0);
    bool opened = open_column(&state.logged, size, size_bytes + 12 * (int64_t)size) &&
                  open_column(&state.told, size, size_bytes + 8 * (int64_t)size) && open_column(&state.keys, size, size_bytes);
    int found = opened && state.rows != NULL && state.times != NULL ? 1 : -1;
    for (Py_ssize_t at = 0; found == 1 && at < size; at++)
        found = place_one(&state, PyList_GET_ITEM(keys, at), PyList_GET_ITEM(times, at));
    PyObject *result = found == 1 ? windows_told(&state) : found == 0 ? Py_NewRef(Py_None) : NULL;
    Py_XDECREF(state.rows);
    Py_XDECREF(state.times);
    close_column(&state.logged);
    close_column(&state.told);
    close_column(&state.keys);
    return result;
}

PyDoc_STRVAR(window_columns_doc, "window_columns(keys) -> (keys of the changelog, keys of results, keys): columns\n\n"
                                 "Of keys as the changelog has them: the same as `window_rows` makes.");

static PyObject *window_columns(PyObject *Py_UNUSED(module), PyObject *keys) {
    int64_t size_bytes = PyList_CheckExact(keys) ? bytes_of(keys) : -1;
    Py_ssize_t size = size_bytes < 0 ? 0 : PyList_GET_SIZE(keys);
    windows state = {0};
    bool done = size_bytes >= 0 && open_column(&state.logged, size, size_bytes) && open_column(&state.told, size, size_bytes) &&
                open_column(&state.keys, size, size_bytes);
    for (Py_ssize_t at = 0; done && at < size; at++) {
        PyObject *key = PyList_GET_ITEM(keys, at);
        if ((done = key != Py_None && PyBytes_GET_SIZE(key) >= 12)) {
            const char *data = PyBytes_AS_STRING(key);
            add_cell(&state.logged, data, PyBytes_GET_SIZE(key));
            add_cell(&state.told, data, PyBytes_GET_SIZE(key) - 4);
            add_cell(&state.keys, data, PyBytes_GET_SIZE(key) - 12);
        }
    }
    if (!done && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "keys of windows are a list of bytes, 12 of them behind each key");
    PyObject *logged = done ? as_pair(&state.logged) : NULL, *told = done ? as_pair(&state.told) : NULL;
    PyObject *alone = done ? as_pair(&state.keys) : NULL, *result = NULL;
    if (logged != NULL && told != NULL && alone != NULL)
        result = PyTuple_Pack(3, logged, told, alone);
    Py_XDECREF(logged);
    Py_XDECREF(told);
    Py_XDECREF(alone);
    close_column(&state.logged);
    close_column(&state.told);
    close_column(&state.keys);
    return result;
}

static PyMethodDef methods[] = {
    {"count_rows", count_rows, METH_VARARGS, count_rows_doc},
    {"last_changes", last_changes, METH_VARARGS, last_changes_doc},
    {"split_counts", split_counts, METH_O, split_counts_doc},
    {"window_columns", window_columns, METH_O, window_columns_doc},
    {"window_rows", window_rows, METH_VARARGS, window_rows_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "headwater.streams._counting", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__counting(void) {
    return PyModule_Create(&definition);
}
