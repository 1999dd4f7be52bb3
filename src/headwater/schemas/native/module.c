/* headwater.schemas._columns: rows of Avro and Protobuf into columns and back, and the ids that stand before them. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "encoder.h"
#include "protobuf.h"

static PyObject *as_bytes(const Block *block) {
    return PyBytes_FromStringAndSize((const char *)block->data, (Py_ssize_t)block->used);
}

/* (length, null count, validity or None, offsets, values) */
static PyObject *finished(const Column *column) {
    PyObject *validity = column->null_count ? as_bytes(&column->validity) : Py_NewRef(Py_None);
    return Py_BuildValue("(LLNNN)", (long long)column->length, (long long)column->null_count, validity,
                         as_bytes(&column->offsets), as_bytes(&column->values));
}

static Column *free_columns(Column *columns, int count) {
    for (int i = 0; i < count; i++)
        column_free(&columns[i]);
    free(columns);
    return NULL;
}

/* The table of columns: kind, width, number of children, the children themselves; one column after the other. */
static Column *make_columns(const int32_t *table, Py_ssize_t size, int count) {
    Column *columns = calloc((size_t)count, sizeof *columns);
    if (columns == NULL)
        return NULL;
    Py_ssize_t at = 0;
    for (int i = 0; i < count; i++) {
        if (at + 3 > size || table[at + 2] < 0 || table[at + 2] > size - at - 3)
            return free_columns(columns, count);
        Column *column = &columns[i];
        column->kind = table[at];
        column->width = table[at + 1];
        column->child_count = table[at + 2];
        column->children = table + at + 3;
        at += 3 + column->child_count;
        if (column->kind == COLUMN_VARIABLE || column->kind == COLUMN_LIST) {
            int32_t zero = 0;
            if (!block_reserve(&column->offsets, sizeof zero))
                return free_columns(columns, count);
            memcpy(column->offsets.data, &zero, sizeof zero);
            column->offsets.used = sizeof zero;
        }
    }
    return columns;
}

typedef struct {
    Py_buffer program, table, defaults, data, offsets, validity;
} Buffers;

static void release(Buffers *buffers) {
    PyBuffer_Release(&buffers->program);
    PyBuffer_Release(&buffers->table);
    PyBuffer_Release(&buffers->defaults);
    PyBuffer_Release(&buffers->data);
    PyBuffer_Release(&buffers->offsets);
    PyBuffer_Release(&buffers->validity);
}

static bool offsets_are_good(const Buffers *buffers, Py_ssize_t rows, int validity_start) {
    const int32_t *offsets = buffers->offsets.buf;
    if (rows < 0 || buffers->offsets.len / (Py_ssize_t)sizeof *offsets < rows + 1 || offsets[0] < 0)
        return false;
    for (Py_ssize_t row = 0; row < rows; row++)
        if (offsets[row + 1] < offsets[row])
            return false;
    if (buffers->validity.len && (validity_start < 0 || buffers->validity.len * 8 < rows + validity_start))
        return false;
    return offsets[rows] <= buffers->data.len;
}

/* What was made of all columns, which are freed; nothing if a row was refused. */
static PyObject *all_finished(Column *columns, int count, int status) {
    PyObject *made = PyTuple_New(status == FINE ? count : 0);
    for (int i = 0; i < count; i++) {
        if (made != NULL && status == FINE) {
            PyObject *each = finished(&columns[i]);
            if (each == NULL)
                Py_CLEAR(made);
            else
                PyTuple_SET_ITEM(made, i, each);
        }
    }
    free_columns(columns, count);
    return made;
}

/* A call of `decode` or `decode_messages`: what it was given, and the columns that it fills. For messages, the bytes
 * that are expected before each of them stand where the defaults do. */
typedef struct {
    Buffers buffers;
    Column *columns;
    int column_count, validity_start, prefix;
    Py_ssize_t rows;
} Decoding;

/* False if it cannot begin: then an exception is set, and nothing is held. */
static bool begin_decoding(PyObject *arguments, Decoding *work) {
    memset(work, 0, sizeof *work);
    Buffers *buffers = &work->buffers;
    if (!PyArg_ParseTuple(arguments, "y*y*iy*y*y*y*ini", &buffers->program, &buffers->table, &work->column_count,
                          &buffers->defaults, &buffers->data, &buffers->offsets, &buffers->validity, &work->validity_start,
                          &work->rows, &work->prefix))
        return false;
    if (work->column_count < 1 || work->prefix < 0 || !offsets_are_good(buffers, work->rows, work->validity_start)) {
        release(buffers);
        PyErr_SetString(PyExc_ValueError, "offsets, validity or columns do not fit the data");
        return false;
    }
    work->columns = make_columns(buffers->table.buf, buffers->table.len / (Py_ssize_t)sizeof(int32_t), work->column_count);
    if (work->columns == NULL) {
        release(buffers);
        PyErr_NoMemory();
        return false;
    }
    return true;
}

static PyObject *end_decoding(Decoding *work, Py_ssize_t row, int status) {
    PyObject *made = all_finished(work->columns, work->column_count, status);
    release(&work->buffers);
    return made == NULL ? NULL : Py_BuildValue("(niN)", row, status, made);
}

static bool is_null(const Decoding *work, Py_ssize_t row) {
    const uint8_t *validity = work->buffers.validity.buf;
    Py_ssize_t bit = row + work->validity_start;
    return work->buffers.validity.len && !(validity[bit >> 3] >> (bit & 7) & 1);
}

static Cursor bytes_of(const Decoding *work, Py_ssize_t row) {
    const int32_t *offsets = work->buffers.offsets.buf;
    const uint8_t *data = work->buffers.data.buf;
    return (Cursor){data + offsets[row], data + offsets[row + 1]};
}

/* One row: null, or its bytes behind the prefix. */
static int decode_row(Decoder *decoder, const Decoding *work, Py_ssize_t row) {
    if (is_null(work, row))
        return column_append_null(decoder->columns, 0);
    Cursor cursor = bytes_of(work, row);
    if (cursor.end - cursor.at < work->prefix)
        return ENDS_EARLY;
    cursor.at += work->prefix;
    decoder->depth = 0;
    decoder->empty_items = 0;
    int status = decoder_run(decoder, 0, &cursor);
    return status == FINE && cursor.at != cursor.end ? BYTES_LEFT : status;
}

PyDoc_STRVAR(decode_doc, "decode(program, table, column_count, defaults, data, offsets, validity, validity_start, rows, prefix)\n\n"
                         "-> (rows decoded, why not more or 0, a tuple for each column). The first column is that of the rows.");

static PyObject *decode(PyObject *module, PyObject *arguments) {
    (void)module;
    Decoding work;
    if (!begin_decoding(arguments, &work))
        return NULL;
    Decoder decoder = {work.buffers.program.buf, work.columns, work.buffers.defaults.buf, 0, 0};
    Py_ssize_t row = 0;
    int status = FINE;
    Py_BEGIN_ALLOW_THREADS
    for (; row < work.rows; row++) {
        status = decode_row(&decoder, &work, row);
        if (status != FINE)
            break;
    }
    Py_END_ALLOW_THREADS
    return end_decoding(&work, row, status);
}

/* One row of Protobuf: null, or its message behind the prefix and the path to it, which must be the one that is
 * expected. */
static int decode_message_row(MessageDecoder *decoder, const Decoding *work, Py_ssize_t row) {
    if (is_null(work, row))
        return column_append_null(decoder->columns, 0);
    Cursor cursor = bytes_of(work, row);
    const Py_buffer *expected = &work->buffers.defaults;
    if (cursor.end - cursor.at < work->prefix)
        return ENDS_EARLY;
    cursor.at += work->prefix;
    if (cursor.end - cursor.at < expected->len || (expected->len && memcmp(cursor.at, expected->buf, (size_t)expected->len) != 0))
        return OTHER_MESSAGE;
    decoder->depth = 0;
    decoder->empty = 0;
    return message_decode(decoder, 0, cursor.at + expected->len, cursor.end);
}

PyDoc_STRVAR(decode_messages_doc,
             "decode_messages(program, table, column_count, expected, data, offsets, validity, validity_start, rows, prefix)\n\n"
             "-> (rows decoded, why not more or 0, a tuple for each column). `expected` are bytes that follow the prefix in each row.");

static PyObject *decode_messages(PyObject *module, PyObject *arguments) {
    (void)module;
    Decoding work;
    if (!begin_decoding(arguments, &work))
        return NULL;
    MessageDecoder decoder = {work.buffers.program.buf, work.columns, {0}, {0}, 0, 0};
    Py_ssize_t row = 0;
    int status = FINE;
    Py_BEGIN_ALLOW_THREADS
    for (; row < work.rows; row++) {
        status = decode_message_row(&decoder, &work, row);
        if (status != FINE)
            break;
    }
    Py_END_ALLOW_THREADS
    message_decoder_free(&decoder);
    return end_decoding(&work, row, status);
}

PyDoc_STRVAR(schema_ids_doc, "schema_ids(data, offsets, rows) -> bytes: an int64 for each row, the id behind a byte 0; -1 where there is none.");

static PyObject *schema_ids(PyObject *module, PyObject *arguments) {
    (void)module;
    Buffers buffers;
    memset(&buffers, 0, sizeof buffers);
    Py_ssize_t rows;
    if (!PyArg_ParseTuple(arguments, "y*y*n", &buffers.data, &buffers.offsets, &rows))
        return NULL;
    PyObject *made = NULL;
    if (!offsets_are_good(&buffers, rows, 0)) {
        PyErr_SetString(PyExc_ValueError, "offsets do not fit the data");
    } else if ((made = PyBytes_FromStringAndSize(NULL, rows * 8)) != NULL) {
        const int32_t *offsets = buffers.offsets.buf;
        const uint8_t *data = buffers.data.buf;
        char *out = PyBytes_AS_STRING(made);
        for (Py_ssize_t row = 0; row < rows; row++) {
            const uint8_t *at = data + offsets[row];
            int64_t id = -1;
            if (offsets[row + 1] - offsets[row] >= 5 && at[0] == 0)
                id = (int64_t)at[1] << 24 | (int64_t)at[2] << 16 | (int64_t)at[3] << 8 | at[4];
            memcpy(out + row * 8, &id, sizeof id);
        }
    }
    release(&buffers);
    return made;
}

/* The buffers of one column: (offset, validity, offsets, values), each of them a buffer or None. */
static bool take_source(PyObject *item, Source *source, Py_buffer *held) {
    PyObject *parts[3];
    long long offset;
    if (!PyArg_ParseTuple(item, "LOOO", &offset, &parts[0], &parts[1], &parts[2]))
        return false;
    for (int i = 0; i < 3; i++)
        if (parts[i] != Py_None && PyObject_GetBuffer(parts[i], &held[i], PyBUF_SIMPLE) < 0)
            return false;
    *source = (Source){offset, held[0].buf, held[2].buf, held[1].buf};
    return true;
}

typedef int (*EncodeRow)(Encoder *, int32_t, int64_t);

static int encode_rows(
    Encoder *encoder, EncodeRow run, Block *offsets, Py_ssize_t rows, const Py_buffer *prefix, Py_ssize_t *row) {
    int status = FINE;
    for (*row = 0; *row < rows && status == FINE; ++*row) {
        const Source *root = &encoder->sources[0];
        int64_t bit = root->offset + *row;
        if (root->validity == NULL || root->validity[bit >> 3] >> (bit & 7) & 1) {
            if (!block_reserve(&encoder->out, (size_t)prefix->len + 1))
                return NO_MEMORY;
            memcpy(encoder->out.data + encoder->out.used, prefix->buf, (size_t)prefix->len);
            encoder->out.used += (size_t)prefix->len;
            status = run(encoder, 0, *row);
        }
        if (status == FINE && encoder->out.used > (size_t)INT32_MAX)
            status = TOO_LARGE;
        int32_t end = (int32_t)encoder->out.used;
        if (status == FINE && !block_reserve(offsets, sizeof end))
            status = NO_MEMORY;
        if (status != FINE)
            break;
        memcpy(offsets->data + offsets->used, &end, sizeof end);
        offsets->used += sizeof end;
    }
    return status;
}

PyDoc_STRVAR(encode_doc, "encode(program, sources, rows, prefix) -> (rows encoded, why not more or 0, offsets, data)\n\n"
                         "`sources` is a list of (offset, validity, offsets, values); null rows of the first are empty.");

static PyObject *encode_with(EncodeRow run, PyObject *arguments) {
    Py_buffer program = {0}, prefix = {0};
    PyObject *list;
    Py_ssize_t rows;
    if (!PyArg_ParseTuple(arguments, "y*O!ny*", &program, &PyList_Type, &list, &rows, &prefix))
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(list);
    Source *sources = calloc((size_t)count + 1, sizeof *sources);
    Py_buffer *held = calloc((size_t)count * 3 + 1, sizeof *held);
    bool good = sources != NULL && held != NULL;
    if (!good)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; good && i < count; i++)
        good = take_source(PyList_GET_ITEM(list, i), &sources[i], held + i * 3);
    PyObject *made = NULL;
    if (good) {
        Encoder encoder = {program.buf, sources, {0}};
        Block offsets = {0};
        Py_ssize_t row;
        int status;
        Py_BEGIN_ALLOW_THREADS
        status = encode_rows(&encoder, run, &offsets, rows, &prefix, &row);
        Py_END_ALLOW_THREADS
        made = Py_BuildValue("(niNN)", row, status, as_bytes(&offsets), as_bytes(&encoder.out));
        free(encoder.out.data);
        free(offsets.data);
    }
    for (Py_ssize_t i = 0; held != NULL && i < count * 3; i++)
        PyBuffer_Release(&held[i]);
    free(held);
    free(sources);
    PyBuffer_Release(&program);
    PyBuffer_Release(&prefix);
    return made;
}

static PyObject *encode(PyObject *module, PyObject *arguments) {
    (void)module;
    return encode_with(encoder_run, arguments);
}

static PyObject *encode_messages(PyObject *module, PyObject *arguments) {
    (void)module;
    return encode_with(message_encode, arguments);
}

static PyMethodDef methods[] = {
    {"decode_messages", decode_messages, METH_VARARGS, decode_messages_doc},
    {"encode_messages", encode_messages, METH_VARARGS, encode_doc},
    {"encode", encode, METH_VARARGS, encode_doc},
    {"decode", decode, METH_VARARGS, decode_doc},
    {"schema_ids", schema_ids, METH_VARARGS, schema_ids_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_columns", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__columns(void) {
    return PyModule_Create(&definition);
}
