/* Runs the tables of a classifier: packs images to bits, evaluates gates, counts votes, picks classes.

   A lane is an image. Slot s holds one bit of BYTES * 8 images. The tables are those of level_schedule.py. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef BYTES
#define BYTES 64
#endif
#define LANES (BYTES * 8)
#define PLANES 32

typedef uint64_t vec __attribute__((vector_size(BYTES)));

typedef struct {
    uint64_t numbers, bits;   /* of an image, and thresholds of a number */
    uint64_t slots, runs, classes, group, planes, digits;
    const int32_t *inputs;    /* the slot of each bit, or -1 */
    const uint32_t *outputs;  /* [classes][group] slots */
    const uint32_t *run;      /* [runs][2] kind, count */
    const uint32_t *gates;    /* [..][3] a, b, result */
} tables;

/* Bits of 8 images at a time: bit l of byte j of a slot is image 8 j + l; images past `rows` are 0. */
#define PACK(NAME, TYPE)                                                                                      \
    static void NAME(const tables *t, const TYPE *x, size_t rows, const TYPE *limits, uint8_t *acc, vec *v)   \
    {                                                                                                         \
        const size_t n = t->numbers;                                                                          \
        for (size_t j = 0; j < BYTES; j++)                                                                    \
            for (size_t k = 0; k < t->bits; k++) {                                                            \
                const TYPE *limit = limits + k * n;                                                           \
                memset(acc, 0, n);                                                                            \
                for (size_t l = 0; l < 8 && 8 * j + l < rows; l++) {                                          \
                    const TYPE *row = x + (8 * j + l) * n;                                                    \
                    for (size_t i = 0; i < n; i++) acc[i] |= (uint8_t)((uint8_t)(row[i] > limit[i]) << l);    \
                }                                                                                             \
                for (size_t i = 0; i < n; i++) {                                                              \
                    const int32_t slot = t->inputs[i * t->bits + k];                                          \
                    if (slot >= 0) ((uint8_t *)(v + slot))[j] = acc[i];                                       \
                }                                                                                             \
            }                                                                                                 \
    }
PACK(pack_floats, float)
PACK(pack_bytes, uint8_t)

#define RUN(KIND, VALUE)                                        \
    case KIND:                                                  \
        for (size_t i = 0; i < count; i++, g += 3) {            \
            const vec a = v[g[0]], b = v[g[1]];                 \
            v[g[2]] = VALUE;                                    \
        }                                                       \
        break;

static void evaluate(const tables *t, vec *v)
{
    const uint32_t *g = t->gates;
    for (size_t r = 0; r < t->runs; r++) {
        const size_t count = t->run[2 * r + 1];
        switch (t->run[2 * r]) {
            RUN(0, a ^ a)
            RUN(1, a & b)
            RUN(2, a & ~b)
            RUN(4, ~a & b)
            RUN(6, a ^ b)
            RUN(7, a | b)
            RUN(12, ~a)
            RUN(15, ~(a ^ a))
        }
    }
}

/* Adds up bits of one class: planes of the sum, and for each plane at most one more bit that waits for a partner. */
static void count(const tables *t, const vec *v, const uint32_t *outputs, vec *sum)
{
    vec held[PLANES];
    uint8_t waits[PLANES] = {0};
    memset(sum, 0, t->planes * sizeof *sum);
    for (size_t k = 0; k < t->group; k++) {
        vec x = v[outputs[k]];
        for (size_t l = 0; l < t->planes; l++) {
            if (!waits[l]) {
                held[l] = x;
                waits[l] = 1;
                break;
            }
            const vec both = sum[l] ^ held[l], carry = (sum[l] & held[l]) | (both & x);
            sum[l] = both ^ x;
            waits[l] = 0;
            x = carry;
        }
    }
    for (size_t l = 0; l < t->planes; l++)
        if (waits[l]) {
            vec x = held[l];
            for (size_t m = l; m < t->planes; m++) {
                const vec carry = sum[m] & x;
                sum[m] ^= x;
                x = carry;
            }
        }
}

/* The class with the most votes, the first of equals, as binary digits. */
static void pick(const tables *t, const vec *sums, vec *digits)
{
    const vec *best = sums;
    vec top[PLANES];
    memcpy(top, best, t->planes * sizeof *top);
    memset(digits, 0, t->digits * sizeof *digits);
    for (size_t c = 1; c < t->classes; c++) {
        const vec *own = sums + c * t->planes;
        vec more = own[0] & ~top[0];
        for (size_t l = 1; l < t->planes; l++) more = (own[l] & ~top[l]) | (~(own[l] ^ top[l]) & more);
        for (size_t l = 0; l < t->planes; l++) top[l] ^= (top[l] ^ own[l]) & more;
        for (size_t l = 0; l < t->digits; l++) digits[l] = (c >> l & 1) ? digits[l] | more : digits[l] & ~more;
    }
}

static void unpack(const vec *planes, size_t n, size_t rows, int32_t *out, size_t stride)
{
    for (size_t i = 0; i < rows; i++) {
        int32_t value = 0;
        for (size_t l = 0; l < n; l++) value |= (int32_t)(((const uint8_t *)(planes + l))[i / 8] >> (i % 8) & 1) << l;
        out[i * stride] = value;
    }
}

/* Classes [rows], or with `counts` votes [rows][classes], of images [rows][numbers] of floats, or of bytes. 0, or 1: no memory. */
int run_tables(const tables *t, const void *x, int bytes, const void *limits, size_t rows, int32_t *out, int counts)
{
    const size_t vectors = t->slots + t->classes * t->planes + t->digits;
    vec *v = aligned_alloc(sizeof *v < 64 ? 64 : sizeof *v, ((vectors * sizeof *v + 127) / 128) * 128);
    uint8_t *acc = malloc(t->numbers);
    if (!v || !acc) {
        free(v);
        free(acc);
        return 1;
    }
    vec *sums = v + t->slots, *digits = sums + t->classes * t->planes;
    for (size_t start = 0; start < rows; start += LANES) {
        const size_t own = rows - start < LANES ? rows - start : LANES;
        if (bytes)
            pack_bytes(t, (const uint8_t *)x + start * t->numbers, own, limits, acc, v);
        else
            pack_floats(t, (const float *)x + start * t->numbers, own, limits, acc, v);
        evaluate(t, v);
        for (size_t c = 0; c < t->classes; c++) count(t, v, t->outputs + c * t->group, sums + c * t->planes);
        if (counts) {
            for (size_t c = 0; c < t->classes; c++)
                unpack(sums + c * t->planes, t->planes, own, out + start * t->classes + c, t->classes);
        } else {
            pick(t, sums, digits);
            unpack(digits, t->digits, own, out + start, 1);
        }
    }
    free(v);
    free(acc);
    return 0;
}
