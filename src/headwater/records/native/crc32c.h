/* CRC-32C: by the processor's own instruction where it has one, else by tables. */
#ifndef HEADWATER_CRC32C_H
#define HEADWATER_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t crc32c_table[8][256]; /* [n]: what a byte does to the CRC when n more bytes have followed it */

static uint32_t crc32c_by_table(const uint8_t *data, size_t size) {
    uint32_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, data += 8) { /* eight bytes at a time, which wait for each other only once */
        uint32_t first = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc32c_table[7][first & 255] ^ crc32c_table[6][first >> 8 & 255] ^ crc32c_table[5][first >> 16 & 255] ^
              crc32c_table[4][first >> 24] ^ crc32c_table[3][data[4]] ^ crc32c_table[2][data[5]] ^
              crc32c_table[1][data[6]] ^ crc32c_table[0][data[7]];
    }
    while (size--) crc = crc >> 8 ^ crc32c_table[0][(crc ^ *data++) & 255];
    return ~crc;
}

static uint32_t (*crc32c)(const uint8_t *data, size_t size) = crc32c_by_table;

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_by_instruction(const uint8_t *data, size_t size) {
    uint64_t crc = 0xFFFFFFFFu;
    for (; size >= 8; size -= 8, data += 8) {
        uint64_t word;
        memcpy(&word, data, 8);
        crc = _mm_crc32_u64(crc, word);
    }
    while (size--) crc = _mm_crc32_u8((uint32_t)crc, *data++);
    return ~(uint32_t)crc;
}
#endif

static void crc32c_prepare(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        crc32c_table[0][byte] = crc;
    }
    for (int more = 1; more < 8; more++)
        for (int byte = 0; byte < 256; byte++) {
            uint32_t before = crc32c_table[more - 1][byte];
            crc32c_table[more][byte] = before >> 8 ^ crc32c_table[0][before & 255];
        }
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) crc32c = crc32c_by_instruction;
#endif
}

#endif
