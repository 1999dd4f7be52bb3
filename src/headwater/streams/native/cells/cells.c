/* Cells of columns between three forms: lists of Python objects, columns in Arrow's layout, and texts.
 *
 * A cell of a list is bytes, or None for null. A column that is made has int64 offsets; one that is read has those of
 * `pa.binary()`, int32. No state. What a function cannot do it refuses with an exception, before anything has changed:
 * Python has the same for all of them. */
#include "../packed_column.h"
#include "../store_rows.h"

static const Py_ssize_t STAMP_BYTES = 8; /* the timestamp before the value in a row of a store */

static bool is_list(PyObject *given) {
    if (PyList_Check(given))
        return true;
    PyErr_SetString(PyExc_TypeError, "cells are a list");
    return false;
}

static bool is_ascii(const char *text, Py_ssize_t size_bytes) {
    uint64_t seen = 0, word;
    for (; size_bytes >= 8; size_bytes -= 8, text += 8) {
        memcpy(&word, text, 8);
        seen |= word;
    }
    for (; size_bytes > 0; size_bytes--, text++)
        seen |= (uint64_t)(uint8_t)*text;
    return (seen & UINT64_C(0x8080808080808080)) == 0;
}

static PyObject *as_text(const char *data, Py_ssize_t size_bytes) {
    return PyUnicode_DecodeUTF8(data, size_bytes, NULL);
}

PyDoc_STRVAR(pack_cells_doc, "pack_cells(cells) -> (offsets, data): a list of bytes, none of them None, as a column");

static PyObject *pack_cells(PyObject *Py_UNUSED(module), PyObject *cells) {
    if (!is_list(cells))
        return NULL;
    column made = {0};
    int64_t size_bytes = bytes_of(cells);
    Py_ssize_t size = PyList_GET_SIZE(cells);
    bool done = size_bytes >= 0 && open_column(&made, size, size_bytes);
    for (Py_ssize_t at = 0; done && at < size; at++) {
        PyObject *cell = PyList_GET_ITEM(cells, at);
        if ((done = cell != Py_None))
            add_cell(&made, PyBytes_AS_STRING(cell), PyBytes_GET_SIZE(cell));
    }
    if (!done && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "a cell is bytes");
    PyObject *result = done ? as_pair(&made) : NULL;
    close_column(&made);
    return result;
}

/* Of all texts in UTF-8; -1 with an exception. */
static int64_t text_bytes(PyObject *texts) {
    int64_t size_bytes = 0;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(texts); at++) {
        PyObject *text = PyList_GET_ITEM(texts, at);
        Py_ssize_t size = 0;
        if (!PyUnicode_CheckExact(text)) {
            PyErr_SetString(PyExc_TypeError, "a cell is a str");
            return -1;
        }
        if (PyUnicode_AsUTF8AndSize(text, &size) == NULL)
            return -1;
        size_bytes += size;
    }
    return size_bytes;
}

PyDoc_STRVAR(pack_texts_doc, "pack_texts(texts) -> (offsets, data): a list of str, none of them None, as a column in UTF-8");

static PyObject *pack_texts(PyObject *Py_UNUSED(module), PyObject *texts) {
    if (!is_list(texts))
        return NULL;
    column made = {0};
    int64_t size_bytes = text_bytes(texts);
    Py_ssize_t count = PyList_GET_SIZE(texts);
    bool done = size_bytes >= 0 && open_column(&made, count, size_bytes);
    for (Py_ssize_t at = 0; done && at < count; at++) {
        Py_ssize_t size = 0;
        const char *data = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(texts, at), &size); /* which it has by now */
        if ((done = data != NULL))
            add_cell(&made, data, size);
    }
    PyObject *result = done ? as_pair(&made) : NULL;
    close_column(&made);
    return result;
}

/* A list of as many cells, each what `make` gives of its bytes; None stays None. */
static PyObject *each_cell(PyObject *cells, PyObject *(*make)(const char *, Py_ssize_t)) {
    if (!is_list(cells))
        return NULL;
    Py_ssize_t size = PyList_GET_SIZE(cells);
    PyObject *made = PyList_New(size);
    for (Py_ssize_t at = 0; made != NULL && at < size; at++) {
        PyObject *cell = PyList_GET_ITEM(cells, at), *one = NULL;
        if (cell == Py_None)
            one = Py_NewRef(Py_None);
        else if (PyBytes_CheckExact(cell))
            one = make(PyBytes_AS_STRING(cell), PyBytes_GET_SIZE(cell));
        else
            PyErr_SetString(PyExc_TypeError, "a cell is bytes or None");
        if (one == NULL)
            Py_CLEAR(made);
        else
            PyList_SET_ITEM(made, at, one);
    }
    return made;
}

PyDoc_STRVAR(has_none_doc, "has_none(cells) -> bool: whether one of the objects of a list is None itself");

static PyObject *has_none(PyObject *Py_UNUSED(module), PyObject *cells) {
    if (!is_list(cells))
        return NULL;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(cells); at++)
        if (PyList_GET_ITEM(cells, at) == Py_None)
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

PyDoc_STRVAR(read_texts_doc, "read_texts(cells) -> list of str, None where a cell is None. Raises UnicodeDecodeError.");

static PyObject *read_texts(PyObject *Py_UNUSED(module), PyObject *cells) {
    return each_cell(cells, as_text);
}

PyDoc_STRVAR(check_texts_doc, "check_texts(cells): raises UnicodeDecodeError where `read_texts` would");

static PyObject *check_texts(PyObject *Py_UNUSED(module), PyObject *cells) {
    if (!is_list(cells))
        return NULL;
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(cells); at++) {
        PyObject *cell = PyList_GET_ITEM(cells, at);
        if (cell == Py_None)
            continue;
        if (!PyBytes_CheckExact(cell)) {
            PyErr_SetString(PyExc_TypeError, "a cell is bytes or None");
            return NULL;
        }
        if (is_ascii(PyBytes_AS_STRING(cell), PyBytes_GET_SIZE(cell)))
            continue;
        PyObject *text = as_text(PyBytes_AS_STRING(cell), PyBytes_GET_SIZE(cell));
        if (text == NULL)
            return NULL;
        Py_DECREF(text);
    }
    Py_RETURN_NONE;
}

/* A column that is read: where cell 0 stands in its buffers is `first`. */
typedef struct {
    Py_buffer validity, offsets, data;
    Py_ssize_t first, count;
} given;

static bool is_null(const given *from, Py_ssize_t at) {
    Py_ssize_t place = from->first + at;
    return from->validity.buf != NULL && !(((const uint8_t *)from->validity.buf)[place / 8] >> (place % 8) & 1);
}

static bool has_room(const given *from) {
    const Py_ssize_t most = PY_SSIZE_T_MAX / 8;
    if (from->first < 0 || from->count < 0 || from->first > most || from->count > most)
        return false;
    Py_ssize_t end = from->first + from->count;
    return from->offsets.len / 4 > end && (from->validity.buf == NULL || from->validity.len * 8 >= end);
}

static PyObject *listed(const given *from) {
    PyObject *made = PyList_New(from->count);
    const char *offsets = (const char *)from->offsets.buf + 4 * from->first;
    for (Py_ssize_t at = 0; made != NULL && at < from->count; at++) {
        int32_t begin, end;
        memcpy(&begin, offsets + 4 * at, 4);
        memcpy(&end, offsets + 4 * (at + 1), 4);
        PyObject *cell = NULL;
        if (is_null(from, at))
            cell = Py_NewRef(Py_None);
        else if (begin < 0 || end < begin || end > from->data.len)
            PyErr_SetString(PyExc_ValueError, "a cell lies outside of its column");
        else
            cell = PyBytes_FromStringAndSize((const char *)from->data.buf + begin, end - begin);
        if (cell == NULL)
            Py_CLEAR(made);
        else
            PyList_SET_ITEM(made, at, cell);
    }
    return made;
}

PyDoc_STRVAR(list_cells_doc, "list_cells(validity, offsets, data, first, count) -> list of bytes, None where a cell is null\n\n"
                             "Of an Arrow column with int32 offsets. Without `validity` no cell is null.");

static PyObject *list_cells(PyObject *Py_UNUSED(module), PyObject *args) {
    given from = {0};
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "z*y*z*nn", &from.validity, &from.offsets, &from.data, &from.first, &from.count))
        return NULL;
    if (has_room(&from))
        result = listed(&from);
    else
        PyErr_SetString(PyExc_ValueError, "a column has fewer cells than that");
    if (from.validity.obj != NULL)
        PyBuffer_Release(&from.validity);
    PyBuffer_Release(&from.offsets);
    if (from.data.obj != NULL)
        PyBuffer_Release(&from.data);
    return result;
}

/* The value of a row without its timestamp, as bytes or text. */
static PyObject *value_of(PyObject *row, bool texts) {
    if (row == Py_None)
        return Py_NewRef(row);
    if (!PyBytes_CheckExact(row) || PyBytes_GET_SIZE(row) < STAMP_BYTES) {
        PyErr_SetString(PyExc_ValueError, "a row begins with a timestamp");
        return NULL;
    }
    const char *data = PyBytes_AS_STRING(row) + STAMP_BYTES;
    Py_ssize_t size_bytes = PyBytes_GET_SIZE(row) - STAMP_BYTES;
    return texts ? as_text(data, size_bytes) : PyBytes_FromStringAndSize(data, size_bytes);
}

PyDoc_STRVAR(find_values_doc, "find_values(keys, layers, end, get, texts) -> list of bytes, or of str with `texts`\n\n"
                              "The values of the rows of these keys, None where there is no row or no key.");

static PyObject *find_values(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *keys;
    store from;
    int texts;
    if (!PyArg_ParseTuple(args, "O!O!OOp", &PyList_Type, &keys, &PyTuple_Type, &from.layers, &from.end, &from.get, &texts) ||
        !are_dicts(from.layers))
        return NULL;
    Py_ssize_t size = PyList_GET_SIZE(keys);
    PyObject *made = PyList_New(size);
    for (Py_ssize_t at = 0; made != NULL && at < size; at++) {
        if (PyList_GET_SIZE(keys) != size) {
            PyErr_SetString(PyExc_RuntimeError, "the keys were changed while they were looked up");
            Py_CLEAR(made);
            break;
        }
        PyObject *key = Py_NewRef(PyList_GET_ITEM(keys, at));
        PyObject *row = key == Py_None ? Py_NewRef(key) : find_row(key, NULL, &from);
        PyObject *value = row == NULL ? NULL : value_of(row, texts);
        Py_XDECREF(row);
        Py_DECREF(key);
        if (value == NULL)
            Py_CLEAR(made);
        else
            PyList_SET_ITEM(made, at, value);
    }
    return made;
}

static PyMethodDef methods[] = {
    {"check_texts", check_texts, METH_O, check_texts_doc},
    {"find_values", find_values, METH_VARARGS, find_values_doc},
    {"has_none", has_none, METH_O, has_none_doc},
    {"list_cells", list_cells, METH_VARARGS, list_cells_doc},
    {"pack_cells", pack_cells, METH_O, pack_cells_doc},
    {"pack_texts", pack_texts, METH_O, pack_texts_doc},
    {"read_texts", read_texts, METH_O, read_texts_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "headwater.streams._cells", .m_size = 0, .m_methods = methods};

PyMODINIT_FUNC PyInit__cells(void) {
    return PyModule_Create(&definition);
}
