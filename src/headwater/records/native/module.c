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

/* A class that derives from tuple, so that tuple_of can make instances. */
static PyTypeObject *take_tuple_class(const char *module_name, const char *name) {
    PyObject *found = take(module_name, name);
    if (found != NULL && !(PyType_Check(found) && PyType_IsSubtype((PyTypeObject *)found, &PyTuple_Type))) {
        PyErr_Format(PyExc_ImportError, "%s.%s is no tuple class", module_name, name);
        Py_CLEAR(found);
    }
    return (PyTypeObject *)found;
}

static bool take_classes(void) {
    classes.record = take_tuple_class("headwater.records.record", "Record");
    classes.columns = take_tuple_class("headwater.records.columns", "Columns");
    classes.header_columns = take_tuple_class("headwater.records.columns", "HeaderColumns");
    classes.section = take_tuple_class("headwater.records.columns", "Section");
    classes.corrupt = take("headwater.records.record", "corrupt");
    classes.kafka_error = take("headwater.base.errors", "KafkaError");
    PyObject *codes = take("headwater.base.errors", "ErrorCode");
    classes.message_too_large = codes == NULL ? NULL : PyObject_GetAttrString(codes, "MESSAGE_TOO_LARGE");
    Py_XDECREF(codes);
    classes.empty_tuple = PyTuple_New(0);
    return classes.record && classes.columns && classes.header_columns && classes.section && classes.corrupt &&
           classes.kafka_error && classes.message_too_large && classes.empty_tuple;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
#define SEE "See headwater.records.codec."

static PyMethodDef functions[] = {
    {"build_records", FAST(py_build_records), METH_FASTCALL, SEE},
    {"encode_columns", FAST(py_encode_columns), METH_FASTCALL, SEE},
    {"murmur2", py_murmur2, METH_O, SEE},
    {"partition_keys", FAST(py_partition_keys), METH_FASTCALL, SEE},
    {"read_records", FAST(py_read_records), METH_FASTCALL, SEE},
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
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && (PyModule_AddType(module, &column_builder_type) < 0 ||
                           PyModule_AddType(module, &batch_appender_type) < 0))
        Py_CLEAR(module);
    return module;
}
