/* One step of a board of bits; put behind a circuit by export_c.py, which writes its name for NAME.
 *
 * In: planes [channels][height][words] of uint64_t, column 64 k + j of a row at bit j of word k, bits past the width 0.
 * Blocks run over row ends: a board of narrow rows fills them as well as one of wide rows.
 * The definitions up to the dashes stand for the generated part, so that this file compiles as it is.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
enum { NAME_INPUTS = 9, NAME_OUTPUTS = 1, NAME_BLOCK = 16, NAME_PERIODIC = 1, NAME_READS = 1 };
static const int NAME_reads[][4] = {{0, 0, 0, 4}};
void NAME_block(const uint64_t (*restrict x)[NAME_BLOCK], uint64_t (*restrict y)[NAME_BLOCK], size_t n);
/* ---- */
/* Word k of a row after moving every bit a column east (dx = -1) or west (dx = 1). */
static uint64_t NAME_moved(const uint64_t *row, int dx, size_t k, size_t words, size_t width)
{
    const unsigned last = (unsigned)((width - 1) % 64);
    uint64_t edge;
    if (dx < 0) {
        edge = k > 0 ? row[k - 1] >> 63 : NAME_PERIODIC ? row[words - 1] >> last : 0;
        return row[k] << 1 | edge;
    }
    edge = k + 1 < words ? row[k + 1] << 63 : NAME_PERIODIC ? (row[0] & 1) << last : 0;
    return row[k] >> 1 | edge;
}

/* n consecutive words, the first in column `column` of its row, moved. Rows follow each other, so all are moved as one
 * string of bits; then the words at the ends of rows, whose neighbours lie elsewhere, are made again. */
static void NAME_gather_rows(const uint64_t *source, int dx, size_t column, size_t n, size_t words, size_t width,
                             uint64_t *restrict out)
{
    if (dx == 0)
        memcpy(out, source, n * sizeof *out);
    else if (dx < 0) {
        out[0] = NAME_moved(source - column, dx, column, words, width);
        for (size_t i = 1; i < n; i++)
            out[i] = source[i] << 1 | source[i - 1] >> 63;
        for (size_t i = words - column; i < n; i += words)
            out[i] = NAME_moved(source + i, dx, 0, words, width);
    } else {
        for (size_t i = 0; i + 1 < n; i++)
            out[i] = source[i] >> 1 | source[i + 1] << 63;
        const size_t last = (column + n - 1) % words;
        out[n - 1] = NAME_moved(source + n - 1 - last, dx, last, words, width);
        for (size_t i = words - 1 - column; i < n; i += words)
            out[i] = NAME_moved(source + i - (words - 1), dx, words - 1, words, width);
    }
}

/* n words of a plane from word `start` on, counted through all rows, as their neighbours at (dy, dx) see them. */
static void NAME_gather(const uint64_t *state, int dy, int dx, size_t start, size_t n, size_t height, size_t words,
                        size_t width, uint64_t *restrict out)
{
    const size_t plane = height * words, rest = plane - words;
    while (n > 0) {
        /* up to the row at which the neighbours are those beyond the border, or up to the end of that row */
        const int beyond = dy < 0 ? start < words : dy > 0 && start >= rest;
        const size_t stop = dy < 0 && beyond ? words : dy > 0 && !beyond ? rest : plane;
        const size_t count = stop - start < n ? stop - start : n;
        if (beyond && !NAME_PERIODIC)
            memset(out, 0, count * sizeof *out);
        else {
            const size_t up = beyond ? start + rest : start - words, down = beyond ? start - rest : start + words;
            const uint64_t *source = state + (dy < 0 ? up : dy > 0 ? down : start);
            NAME_gather_rows(source, dx, start % words, count, words, width, out);
        }
        start += count, out += count, n -= count;
    }
}

/* One step. fire: [height][words], bits of the cells that take their new state; NULL: all cells. next is not state. */
void NAME_step(const uint64_t *restrict state, const uint64_t *restrict fire, uint64_t *restrict next, size_t height,
               size_t width)
{
    uint64_t x[NAME_INPUTS][NAME_BLOCK], y[NAME_OUTPUTS][NAME_BLOCK];
    const size_t words = (width + 63) / 64, plane = height * words;
    const uint64_t tail = ~UINT64_C(0) >> (63 - (width - 1) % 64);
    for (size_t start = 0; start < plane; start += NAME_BLOCK) {
        const size_t n = plane - start < NAME_BLOCK ? plane - start : NAME_BLOCK;
        for (int r = 0; r < NAME_READS; r++) {
            const int *read = NAME_reads[r];
            NAME_gather(state + (size_t)read[2] * plane, read[0], read[1], start, n, height, words, width, x[read[3]]);
        }
        NAME_block((const uint64_t(*)[NAME_BLOCK])x, y, n);
        for (size_t c = 0; c < NAME_OUTPUTS; c++) {
            uint64_t *to = next + c * plane + start;
            const uint64_t *old = state + c * plane + start;
            if (fire)
                for (size_t i = 0; i < n; i++)
                    to[i] = old[i] ^ ((old[i] ^ y[c][i]) & fire[start + i]);
            else
                memcpy(to, y[c], n * sizeof *to);
            for (size_t i = words - 1 - start % words; i < n; i += words)
                to[i] &= tail;
        }
    }
}
