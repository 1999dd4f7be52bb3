/* headwater.records._codec: the compiled codec of records. What its functions do is told in codec.py; its twin in plain
 * Python is in pure/. The only state are references to our own Python classes, taken when the module is loaded. */
#include "codec.h"

codec_classes classes;

static PyObject *take(const char *module_name, const char *name) {
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *found = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    Py_XDECREF(module);
    return found;
}

/* A NamedTuple class of so many fields, so that tuple_of can make instances. Another number means that this build is
 * older or newer than the Python beside it: the import fails, and the twin serves. */
static PyTypeObject *take_tuple_class(const char *module_name, const char *name, Py_ssize_t field_count) {
    PyObject *found = take(module_name, name);
    PyObject *fields = found == NULL ? NULL : PyObject_GetAttrString(found, "_fields");
    bool fits = fields != NULL && PyTuple_Check(fields) && PyTuple_GET_SIZE(fields) == field_count &&
                PyType_Check(found) && PyType_IsSubtype((PyTypeObject *)found, &PyTuple_Type);
    Py_XDECREF(fields);
    if (!fits) {
        Py_CLEAR(found);
        PyErr_Format(PyExc_ImportError, "%s.%s is not what the codec was built for", module_name, name);
    }
    return (PyTypeObject *)found;
}

static bool take_classes(void) {
    const char *record = "headwater.records.record", *columns = "headwater.records.columns";
    const char *errors = "headwater.base.errors";
    PyObject *codes = take(errors, "ErrorCode");
    bool done = codes != NULL && (classes.message_too_large = PyObject_GetAttrString(codes, "MESSAGE_TOO_LARGE")) &&
                (classes.kafka_error = take(errors, "KafkaError")) && (classes.corrupt = take(record, "corrupt")) &&
                (classes.record = take_tuple_class(record, "Record", 5)) &&
                (classes.columns = take_tuple_class(columns, "Columns", 16)) &&
                (classes.header_columns = take_tuple_class(columns, "HeaderColumns", 10)) &&
                (classes.section = take_tuple_class(columns, "Section", 5)) &&
                (classes.empty_tuple = PyTuple_New(0));
    Py_XDECREF(codes);
    if (!done && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_SetString(PyExc_ImportError, "a class that the codec was built for is not there");
    return done;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
#define SEE "See headwater.records.codec."

static PyMethodDef functions[] = {
    {"build_records", FAST(py_build_records), METH_FASTCALL, SEE},
    {"encode_columns", FAST(py_encode_columns), METH_FASTCALL, SEE},
    {"murmur2", py_murmur2, METH_O, SEE},
    {"partition_keys", FAST(py_partition_keys), METH_FASTCALL, SEE},
    {"read_records", FAST(py_read_records), METH_FASTCALL, SEE},
    {"schema_frames", FAST(py_schema_frames), METH_FASTCALL, SEE},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headwater.records._codec",
    .m_doc = "The compiled codec of records. See headwater.records.codec.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__codec(void) {
    if (!take_classes() || PyType_Ready(&memory_type) < 0)
        return NULL;
    prepare_scanning();
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && (PyModule_AddType(module, &column_builder_type) < 0 ||
                           PyModule_AddType(module, &batch_appender_type) < 0 ||
                           PyModule_AddType(module, &batch_scanner_type) < 0))
        Py_CLEAR(module);
    return module;
}
