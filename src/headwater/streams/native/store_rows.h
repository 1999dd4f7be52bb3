/* Rows of a store as `PendingMap.layers` shows them: dicts of bytes, one after the other, then what `get` says. */
#ifndef HEADWATER_STORE_ROWS_H
#define HEADWATER_STORE_ROWS_H
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* What a store has; no row from `end` on, if it is no None. */
typedef struct {
    PyObject *layers, *end, *get;
} store;

static inline bool are_dicts(PyObject *layers) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(layers); i++)
        if (!PyDict_Check(PyTuple_GET_ITEM(layers, i))) {
            PyErr_SetString(PyExc_TypeError, "a layer is a dict");
            return false;
        }
    return true;
}

/* The row that was found, a new reference, None where there is none; NULL when it cannot be read. `fresh`, if it is no
 * NULL, is asked first. */
static inline PyObject *find_row(PyObject *row, PyObject *fresh, const store *from) {
    PyObject *found = fresh != NULL ? PyDict_GetItemWithError(fresh, row) : NULL;
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

#endif
