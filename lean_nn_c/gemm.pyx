"""Matrix products  c[b] = op(a[b]) @ op(b[b]),  op the identity or the transpose, batch axes by strides (0: broadcast).

The tile of simd.h with A and B where they lie: a row-major A gives row pointers, a transposed one a table of row
offsets. B's columns are brought into contiguous strips of one tile's width when several panels of rows will read
them (or when B is transposed, or ends inside a tile), and so are the rows of a transposed A when several tiles will.
Few rows against a transposed B (a linear layer on a small batch) are dot products along both, and nothing is moved.

k runs in blocks of BLOCK; block sums are added in order: the bits depend on the shapes alone, not on threads.
Error: |c^ - c| <= gamma_k |a| |b|. Temporary space: less than 1 MB per thread.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from lean_nn_c._geometry cimport MAX_RANK, refuse
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._simd cimport LNN_ROWS, bring, dots, lanes, lnn_vectors, tile, turn
from lean_nn_c._types cimport real
from lean_nn_c.threads cimport threads_for

cdef enum:
    BLOCK = 256             # terms of a partial sum
    LONG_BLOCK = 1024       # the same where vectors run along k: as many terms per lane and less to add up
    ROWS = 192              # rows worked on together
    STRIPS = 4              # tiles whose columns are brought together at once
    MAX_TILE = 128          # columns of the widest tile


cdef void strip(const real* b, int64_t row, int64_t col, int64_t k, int64_t columns, int64_t width,
                real* out) noexcept nogil:
    """out[i*width + j] = b[i*row + j*col] for j < columns, else 0."""
    cdef int64_t i
    if col != 1:            # then row is 1: a transposed factor
        turn(b, col, columns, k, out, width)
    for i in range(k):
        if col == 1:
            memcpy(out + i * width, b + i * row, columns * sizeof(real))
        if columns < width:
            memset(out + i * width + columns, 0, (width - columns) * sizeof(real))


cdef void strips(const Product* p, const real* b, int64_t k, int64_t first, int64_t count, real* out) noexcept nogil:
    """Tiles first .. first+count of k rows of op(b), one strip after the other."""
    cdef int64_t t, whole = min(count, p.n // p.width - first) if p.b_col == 1 else 0
    if whole > 0:
        bring(b + first * p.width, p.b_row, k, <int>(p.width // lanes(b)), <int>whole, out)
    for t in range(max(whole, 0), count):
        strip(b + (first + t) * p.width * p.b_col, p.b_row, p.b_col, k, min(p.width, p.n - (first + t) * p.width),
              p.width, out + t * k * p.width)


cdef void take(const real* part, int rows, int64_t columns, bint add, real* c, int64_t ldc) noexcept nogil:
    """The columns of a tile that exist."""
    cdef int m
    cdef int64_t j
    for m in range(rows):
        for j in range(columns):
            c[m * ldc + j] = part[m * MAX_TILE + j] + (c[m * ldc + j] if add else 0)


cdef void panels_of(const real* a, int64_t row, int64_t col, int64_t m, int64_t k, real* out) noexcept nogil:
    """Rows of op(a) brought together panel by panel: out[panel][i][rows of the panel] = a[row*m + col*i]."""
    cdef int64_t panels = (m + LNN_ROWS - 1) // LNN_ROWS, panel, first, i, j, rows
    for panel in range(panels):
        first = m * panel // panels
        rows = m * (panel + 1) // panels - first
        for i in range(k):
            for j in range(rows):
                out[i * LNN_ROWS + j] = a[(first + j) * row + i * col]
        out += k * LNN_ROWS


cdef void block(const Product* p, const real* a, const real* b, const real* bias, real* c, int64_t m0, int64_t m1,
                int64_t first, int64_t stop, real* scratch) noexcept nogil:
    """Rows m0..m1, tiles first..stop of one product."""
    cdef real* gathered = scratch
    cdef real* strips_of = gathered + p.gathered
    cdef int64_t* aoff = <int64_t*>(strips_of + p.strips)
    cdef int64_t* boff = aoff + BLOCK
    cdef int64_t panels = (m1 - m0 + LNN_ROWS - 1) // LNN_ROWS, k, part_k, terms, t, i, count
    cdef bint gather = p.a_row == 1 and p.k > 1 and stop - first >= 4
    cdef bint packed = p.b_col != 1 or panels >= 4
    for i in range(min(p.k, <int64_t>BLOCK)):
        aoff[i] = i * (LNN_ROWS if gather else p.a_col)
    for part_k in range((p.k + BLOCK - 1) // BLOCK):
        k = part_k * BLOCK
        terms = min(<int64_t>BLOCK, p.k - k)
        if gather:
            panels_of(a + m0 * p.a_row + k * p.a_col, p.a_row, p.a_col, m1 - m0, terms, gathered)
        t = first
        while t < stop:
            count = min(<int64_t>STRIPS, stop - t)
            if packed or (t + count) * p.width > p.n:
                strips(p, b + k * p.b_row, terms, t, count, strips_of)
                row_offsets(boff, terms, p.width)
                for i in range(count):
                    column(p, a + k * p.a_col, <const real*>gathered if gather else NULL, aoff,
                           <const real*>strips_of + i * terms * p.width, boff, terms, bias, k == 0, m0, m1, t + i, c)
            else:
                row_offsets(boff, terms, p.b_row)
                for i in range(count):
                    column(p, a + k * p.a_col, <const real*>gathered if gather else NULL, aoff,
                           b + k * p.b_row + (t + i) * p.width, boff, terms, bias, k == 0, m0, m1, t + i, c)
            t += count


cdef void row_offsets(int64_t* off, int64_t count, int64_t step) noexcept nogil:
    cdef int64_t i
    for i in range(count):
        off[i] = i * step


cdef void column(const Product* p, const real* a, const real* gathered, const int64_t* aoff, const real* b,
                 const int64_t* boff, int64_t terms, const real* bias, bint fresh, int64_t m0, int64_t m1, int64_t t,
                 real* c) noexcept nogil:
    """Tile t of all panels of rows m0..m1, `terms` of the sum."""
    cdef const real* rows[LNN_ROWS]
    cdef const real* start
    cdef real part[LNN_ROWS * MAX_TILE]
    cdef int64_t j = t * p.width, columns = min(p.width, p.n - j), panels = (m1 - m0 + LNN_ROWS - 1) // LNN_ROWS
    cdef int64_t panel, m, i
    cdef int mr, nv = <int>((columns + lanes(a) - 1) // lanes(a))
    for panel in range(panels):
        m = m0 + (m1 - m0) * panel // panels
        mr = <int>(m0 + (m1 - m0) * (panel + 1) // panels - m)
        for i in range(mr):
            rows[i] = a + (m + i) * p.a_row if gathered == NULL else gathered + panel * terms * LNN_ROWS + i
        start = bias + m if bias != NULL and fresh else NULL
        if columns == nv * lanes(a):
            tile(mr, nv, terms, rows, aoff, b, boff, start, not fresh, c + m * p.n + j, p.n)
        else:
            tile(mr, nv, terms, rows, aoff, b, boff, start, False, &part[0], MAX_TILE)
            take(<const real*>&part[0], mr, columns, not fresh, c + m * p.n + j, p.n)


cdef void dot_rows(const Product* p, const real* a, const real* b, real* c, int64_t first, int64_t stop) noexcept nogil:
    """c[:, first:stop] by dot products: rows of a against rows of the transposed b."""
    cdef const real* arow[4]
    cdef const real* brow[3]
    cdef int64_t k, part_k, terms, m, n, i
    cdef int mr, nr
    for n in range(first, stop, 3):
        nr = <int>min(<int64_t>3, stop - n)
        for part_k in range((p.k + LONG_BLOCK - 1) // LONG_BLOCK):
            k = part_k * LONG_BLOCK
            terms = min(<int64_t>LONG_BLOCK, p.k - k)
            for m in range(0, p.m, 4):
                mr = <int>min(<int64_t>4, p.m - m)
                for i in range(mr):
                    arow[i] = a + (m + i) * p.a_row + k
                for i in range(nr):
                    brow[i] = b + (n + i) * p.b_col + k
                dots(mr, nr, terms, arow, brow, k > 0, c + m * p.n + n, p.n, 1)


cdef void unit(const Product* p, const real* a, const real* b, const real* bias, real* c, int64_t index,
               int64_t rows, int64_t tiles, int64_t blocks_m, int64_t blocks_t, real* scratch) noexcept nogil:
    cdef int64_t part_t = index % blocks_t, part_m = index // blocks_t % blocks_m
    cdef int64_t batch = index // (blocks_t * blocks_m), rest = batch, all_tiles = (p.n + p.width - 1) // p.width
    cdef int i
    c += batch * p.m * p.n
    for i in range(p.rank - 1, -1, -1):
        a += rest % p.size[i] * p.a_step[i]
        b += rest % p.size[i] * p.b_step[i]
        if bias != NULL:
            bias += rest % p.size[i] * p.bias_step[i]
        rest //= p.size[i]
    if p.as_dots:
        dot_rows(p, a, b, c, part_t * tiles * p.width, min(p.n, (part_t + 1) * tiles * p.width))
    else:
        block(p, a, b, bias, c, part_m * rows, min(p.m, (part_m + 1) * rows), part_t * tiles,
              min(all_tiles, (part_t + 1) * tiles), scratch)


cdef int multiply(Product* p, const real* a, const real* b, const real* bias, real* c) noexcept nogil:
    """c = op(a) @ op(b) + bias; the status is 1 when there was no memory."""
    cdef double work = <double>p.batch * p.m * p.n * p.k / 8
    cdef int threads = threads_for(<Py_ssize_t>min(work, 1e18))
    cdef int64_t rows, tiles, all_tiles, blocks_m, blocks_t, units, i
    cdef int64_t scratch_size = 2 * BLOCK * sizeof(int64_t) // sizeof(real)
    cdef real* scratch
    p.width = lnn_vectors(p.m) * lanes(a)
    p.as_dots = p.b_row == 1 and p.b_col != 1 and p.a_col == 1 and bias == NULL and (p.m < 8 or p.n < 8)
    rows = p.m if p.as_dots else min(p.m, <int64_t>ROWS)
    all_tiles = (p.n + p.width - 1) // p.width
    tiles = min(all_tiles, <int64_t>16)
    p.gathered = (rows + LNN_ROWS - 1) // LNN_ROWS * LNN_ROWS * min(p.k, <int64_t>BLOCK) if p.a_row == 1 else 0
    p.strips = min(tiles, <int64_t>STRIPS) * min(p.k, <int64_t>BLOCK) * p.width
    p.gathered += p.gathered % 2            # what follows must suit 8-byte integers
    p.strips += p.strips % 2
    scratch_size += p.gathered + p.strips
    while True:
        blocks_m = (p.m + rows - 1) // rows
        blocks_t = (all_tiles + tiles - 1) // tiles
        units = p.batch * blocks_m * blocks_t
        if units >= 3 * threads or threads == 1:
            break
        if tiles > 2:
            tiles = (tiles + 1) // 2
        elif rows > 12 and not p.as_dots:
            rows = max((rows + 1) // 2, <int64_t>12)
        else:
            break
    scratch = <real*>malloc(threads * scratch_size * sizeof(real))
    if scratch == NULL:
        return 1
    if units == 1:
        unit(p, a, b, bias, c, 0, rows, tiles, blocks_m, blocks_t, scratch)
    else:
        for i in prange(units, schedule="dynamic", num_threads=threads):
            unit(p, a, b, bias, c, i, rows, tiles, blocks_m, blocks_t, scratch + omp_get_thread_num() * scratch_size)
    free(scratch)
    return 0


cdef double span(const Product* p, bint left) noexcept nogil:
    """Values from the first to the last that the product reads of one operand."""
    cdef double last = <double>(p.m if left else p.n) * p.k
    cdef int i
    for i in range(p.rank):
        last += <double>(p.size[i] - 1) * (p.a_step[i] if left else p.b_step[i])
    return last


cdef int read_product(Product* p, int64_t m, int64_t n, int64_t k, bint ta, bint tb, tuple batch, tuple a_step,
                      tuple b_step) except -1:
    cdef int i
    cdef double total = 1
    if len(batch) > MAX_RANK or not len(batch) == len(a_step) == len(b_step) or m < 0 or n < 0 or k < 0:
        refuse("batch tuples differ in length, or a size is negative")
    p.m, p.n, p.k, p.rank, p.batch = m, n, k, <int>len(batch), 1
    p.a_row, p.a_col = 1 if ta else k, m if ta else 1
    p.b_row, p.b_col = 1 if tb else n, k if tb else 1
    for i in range(p.rank):
        p.size[i], p.a_step[i], p.b_step[i], p.bias_step[i] = batch[i], a_step[i], b_step[i], 0
        if p.size[i] < 0 or p.a_step[i] < 0 or p.b_step[i] < 0:
            refuse("a batch size or stride is negative")
        total *= p.size[i]
        if total > 4e18:
            refuse("sizes overflow")
        p.batch *= p.size[i]
    return 0


cdef void merge_rows(Product* p, bint ta) noexcept nogil:
    """One b for a dense batch of row-major a is one taller product."""
    cdef int i
    cdef int64_t dense = p.m * p.k
    if ta:
        return
    for i in range(p.rank - 1, -1, -1):
        if p.size[i] != 1 and (p.b_step[i] != 0 or p.a_step[i] != dense):
            return
        dense *= p.size[i]
    p.m *= p.batch
    p.batch = 1
    p.rank = 0


def matmul(
    const real[::1] a,      # IN  op(a): m x k
    const real[::1] b,      # IN  op(b): k x n
    real[::1] c,            # OUT batch x m x n
    int64_t m, int64_t n, int64_t k, bint ta, bint tb, tuple batch, tuple a_step, tuple b_step,
):
    """c[...] = op(a[...]) @ op(b[...]); `a_step`, `b_step` are the distances of neighbours on each batch axis"""
    cdef Product p
    cdef int status
    read_product(&p, m, n, k, ta, tb, batch, a_step, b_step)
    if <double>p.batch * m * n > 4e18 or c.shape[0] != p.batch * m * n:
        refuse("the result's length does not match the sizes")
    if c.shape[0] == 0:
        return
    if span(&p, True) > a.shape[0] or span(&p, False) > b.shape[0]:
        refuse("an operand is shorter than the sizes say")
    if k == 0:
        c[:] = 0
        return
    with nogil:
        merge_rows(&p, ta)
        status = multiply(&p, &a[0], &b[0], <const real*>NULL, &c[0])
    if status:
        raise MemoryError("matmul: no memory for the threads' scratch space")
