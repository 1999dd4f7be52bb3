/* Memory that grows, and the object that hands it to Python without a copy; errors and tuples too. */
#include "codec.h"

#define FIRST_BYTES 4096

bool grow(growing *memory, size_t more) {
    if (more > PY_SSIZE_T_MAX - memory->used) {
        PyErr_NoMemory();
        return false;
    }
    size_t wanted = memory->used + more;
    size_t capacity = memory->capacity < FIRST_BYTES ? FIRST_BYTES : memory->capacity;
    while (capacity < wanted)
        capacity = capacity > PY_SSIZE_T_MAX / 2 ? wanted : capacity * 2;
    uint8_t *data = PyMem_RawRealloc(memory->data, capacity);
    if (data == NULL) {
        PyErr_NoMemory();
        return false;
    }
    memory->data = data;
    memory->capacity = capacity;
    return true;
}

void let_go(growing *memory) {
    PyMem_RawFree(memory->data);
    memset(memory, 0, sizeof *memory);
}

void *raise_corrupt(int64_t base_offset, const char *why) {
    PyObject *message = PyUnicode_FromFormat("the batch at offset %lld: %s", (long long)base_offset, why);
    PyObject *error = message == NULL ? NULL : PyObject_CallOneArg(classes.corrupt, message);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(message);
    return NULL;
}

void *raise_too_large(int64_t size_bytes) {
    PyObject *message = PyUnicode_FromFormat("%lld bytes are more than one batch can have", (long long)size_bytes);
    PyObject *error = NULL;
    if (message != NULL)
        error = PyObject_CallFunctionObjArgs(classes.kafka_error, classes.message_too_large, message, NULL);
    if (error != NULL)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(message);
    return NULL;
}

bool right_count(Py_ssize_t got, Py_ssize_t least, Py_ssize_t most, const char *name) {
    if (got >= least && got <= most)
        return true;
    PyErr_Format(PyExc_TypeError, "%s takes %zd to %zd arguments, not %zd", name, least, most, got);
    return false;
}

PyObject *tuple_of(PyTypeObject *type, Py_ssize_t count, PyObject **items) {
    PyObject *made = NULL;
    bool whole = true;
    for (Py_ssize_t i = 0; i < count; i++)
        whole &= items[i] != NULL;
    if (whole)
        made = type == &PyTuple_Type ? PyTuple_New(count) : type->tp_alloc(type, count);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (made != NULL)
            PyTuple_SET_ITEM(made, i, items[i]);
        else
            Py_XDECREF(items[i]);
    }
    return made;
}

typedef struct {
    PyObject_HEAD
    growing memory;
} memory_object;

static int memory_get(PyObject *self, Py_buffer *view, int flags) {
    static uint8_t nothing[8];
    growing *memory = &((memory_object *)self)->memory;
    void *data = memory->data == NULL ? nothing : memory->data;
    return PyBuffer_FillInfo(view, self, data, (Py_ssize_t)memory->used, 1, flags);
}

static Py_ssize_t memory_length(PyObject *self) { return (Py_ssize_t)((memory_object *)self)->memory.used; }

static void memory_dealloc(PyObject *self) {
    let_go(&((memory_object *)self)->memory);
    PyObject_Free(self);
}

/* Takes the memory over, and leaves `memory` empty. */
PyObject *memory_of(growing *memory) {
    memory_object *self = PyObject_New(memory_object, &memory_type);
    if (self == NULL)
        return NULL;
    self->memory = *memory;
    memset(memory, 0, sizeof *memory);
    if (self->memory.capacity > self->memory.used + self->memory.used / 8) {
        uint8_t *smaller = PyMem_RawRealloc(self->memory.data, self->memory.used == 0 ? 1 : self->memory.used);
        if (smaller != NULL) {
            self->memory.data = smaller;
            self->memory.capacity = self->memory.used;
        }
    }
    return (PyObject *)self;
}

static PyBufferProcs memory_buffer = {.bf_getbuffer = memory_get};
static PySequenceMethods memory_sequence = {.sq_length = memory_length};

PyTypeObject memory_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "headwater.records._codec.Memory",
    .tp_doc = "Bytes of a column; gives a buffer, read only.",
    .tp_basicsize = sizeof(memory_object),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = memory_dealloc,
    .tp_as_buffer = &memory_buffer,
    .tp_as_sequence = &memory_sequence,
};
