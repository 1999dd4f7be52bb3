/* Columns that grow: what is not in the innermost loop. */
#include "column.h"

bool stretch_bits(growing *bitmap, int64_t bits, uint8_t fill) {
    size_t wanted = (size_t)(bits + 7) / 8;
    if (wanted <= bitmap->used)
        return true;
    if (!reserve(bitmap, wanted - bitmap->used))
        return false;
    memset(bitmap->data + bitmap->used, fill, wanted - bitmap->used);
    bitmap->used = wanted;
    return true;
}

void trim_bits(growing *bitmap, int64_t bits) {
    bitmap->used = (size_t)(bits + 7) / 8;
    if (bits & 7)
        bitmap->data[bitmap->used - 1] &= (uint8_t)((1 << (bits & 7)) - 1);
}

bool binary_reserve(binary_builder *column, int64_t rows, size_t bytes) {
    bool fresh = column->offsets.used == 0;
    if (!reserve(&column->offsets, ((size_t)rows + 1) * 4) || !reserve(&column->data, bytes))
        return false;
    if (fresh)
        put_int32(&column->offsets, 0);
    return true;
}

void binary_cut(binary_builder *column, int64_t rows, int64_t rows_now, size_t bytes, int64_t null_count) {
    if (column->offsets.used == 0)
        return; /* there was no memory even for the first */
    for (int64_t row = rows; row < rows_now && row < (int64_t)column->bits.used * 8; row++)
        set_bit(&column->bits, row);
    column->offsets.used = ((size_t)rows + 1) * 4;
    column->data.used = bytes;
    column->null_count = null_count;
}

void binary_let_go(binary_builder *column) {
    let_go(&column->offsets);
    let_go(&column->data);
    let_go(&column->bits);
    column->null_count = 0;
}

bool binary_finish(binary_builder *column, int64_t rows, PyObject **items) {
    if (!binary_reserve(column, 0, 0) || (column->null_count && !stretch_bits(&column->bits, rows, 0xFF)))
        return false;
    items[0] = PyLong_FromLongLong(column->null_count);
    if (column->null_count)
        trim_bits(&column->bits, rows);
    items[1] = column->null_count ? memory_of(&column->bits) : Py_NewRef(Py_None);
    items[2] = memory_of(&column->offsets);
    items[3] = memory_of(&column->data);
    return items[0] && items[1] && items[2] && items[3];
}
