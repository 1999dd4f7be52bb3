/* Memory that grows, and the object that hands it to Python without a copy; errors and tuples too. */
#include "codec.h"

#define FIRST_BYTES 4096
#define KEPT_BLOCKS 16
#define KEPT_BYTES_MIN ((size_t)64 << 10)
#define KEPT_BYTES_MAX ((size_t)64 << 20) /* of all together */

/* Blocks that were let go, kept for the next columns: a reader makes the same columns over and over, and a third of the
 * time would go into page faults of fresh memory. The GIL guards them. */
static struct {
    uint8_t *data;
    size_t capacity;
} kept[KEPT_BLOCKS];
static size_t kept_bytes;

/* Takes over a block; false if it is not one to keep. */
static bool keep(uint8_t *data, size_t capacity) {
#ifdef __SANITIZE_ADDRESS__
    return false; /* so that a use after free is seen */
#endif
    if (capacity < KEPT_BYTES_MIN || capacity > KEPT_BYTES_MAX - kept_bytes)
        return false;
    for (int i = 0; i < KEPT_BLOCKS; i++) {
        if (kept[i].data == NULL) {
            kept[i].data = data;
            kept[i].capacity = capacity;
            kept_bytes += capacity;
            return true;
        }
    }
    return false;
}

/* The smallest block of at least `wanted` bytes, if it is not far too large. */
static bool take_kept(size_t wanted, uint8_t **data, size_t *capacity) {
    int best = -1;
    for (int i = 0; i < KEPT_BLOCKS; i++)
        if (kept[i].data != NULL && kept[i].capacity >= wanted && kept[i].capacity / 4 <= wanted &&
            (best < 0 || kept[i].capacity < kept[best].capacity))
            best = i;
    if (best < 0)
        return false;
    *data = kept[best].data;
    *capacity = kept[best].capacity;
    kept_bytes -= *capacity;
    kept[best].data = NULL;
    return true;
}

bool grow(growing *memory, size_t more) {
    if (more > PY_SSIZE_T_MAX - memory->used) {
        PyErr_NoMemory();
        return false;
    }
    size_t wanted = memory->used + more;
    size_t capacity = memory->capacity < FIRST_BYTES ? FIRST_BYTES : memory->capacity;
    while (capacity < wanted)
        capacity = capacity > PY_SSIZE_T_MAX / 2 ? wanted : capacity * 2;
    uint8_t *data;
    if (take_kept(capacity, &data, &capacity)) {
        size_t used = memory->used;
        if (used)
            memcpy(data, memory->data, used);
        let_go(memory);
        memory->used = used;
    } else {
        data = PyMem_RawRealloc(memory->data, capacity);
    }
    if (data == NULL) {
        PyErr_NoMemory();
        return false;
    }
    memory->data = data;
    memory->capacity = capacity;
    return true;
}

void let_go(growing *memory) {
    if (memory->data != NULL && !keep(memory->data, memory->capacity))
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

PyObject *memory_of(growing *memory) {
    memory_object *self = PyObject_New(memory_object, &memory_type);
    if (self == NULL)
        return NULL;
    if (memory->used == 0)
        let_go(memory);
    self->memory = *memory;
    memset(memory, 0, sizeof *memory);
    if (self->memory.used < self->memory.capacity / 2) {
        uint8_t *smaller = PyMem_RawRealloc(self->memory.data, self->memory.used);
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
