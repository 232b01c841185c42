"""Matrix products  c[b] = op(a[b]) @ op(b[b]),  op the identity or the transpose, batch axes by strides (0: broadcast).

Many rows: a block of op(a) is packed into panels of LNN_ROWS rows, term after term, which stay in the second-level
cache; op(b) is packed one strip of columns after the other, and each strip, in the first-level cache, meets all panels
(simd_panel.h). While a strip is worked on, the rows of the strips after it are called into the cache: they lie too far
apart for the machine to guess them. Packing costs each thread one pass over what it reads, and no thread waits for
another.

A factor that does not change can be packed beforehand: b (`pack`) as the same strips, a (_pointwise.pxd) as the same panels,
block after block, for as many products as come. Parts of the rows are then whole panels.

Few rows: b is read where it lies (the tile of simd_tile.h), once. Few rows or columns with both factors running along
k are dot products (_dots.pxd), and only a few columns are ever turned for it.

Few terms: writing c is what costs, so a panel meets many strips and writes along its rows.

k runs in blocks of about BLOCK; block sums are added in order: the bits depend on the shapes alone, not on threads.
Error: |c^ - c| <= gamma_k |a| |b|. Temporary space: less than 0.5 MB per thread.
"""

from cython.parallel cimport prange
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._dots cimport LONG_BLOCK, dot_rows
from lean_nn_c._geometry cimport refuse
from lean_nn_c._openmp cimport omp_get_thread_num
from lean_nn_c._product cimport call_in, end_rows, exchange, merge_rows, read_product, span, take
from lean_nn_c._queue cimport Queue, draw, open_queue
from lean_nn_c._simd cimport (
    LNN_FULL, LNN_ROWS, LNN_TALLEST, SPARE_LINE, aligned, bring, dots, lanes, lines, lnn_vectors, panel, rows_of, tile, turn,
    whole_lines,
)
from lean_nn_c._tail cimport LNN_PLAIN, lnn_tail
from lean_nn_c._types cimport real
from lean_nn_c.step cimport STEP_DONE, STEP_NO_MEMORY, give_scratch, make_step, read_tail, take_scratch
from lean_nn_c.threads cimport threads_for

cdef enum:
    BLOCK = 256             # terms of a partial sum
    SHORT_BLOCK = 16        # the same where b is read in place: as many rows as the machine can follow
    STRIPS = 4              # strips packed at once: a cache line or more of each row
    SLIM_STRIPS = 64        # the same where terms are few, at most, and
    SLIM_TERMS = 384        # terms of them all: so many fit the first-level cache
    MAX_TILE = 128          # columns of the widest tile
    THIN = 8                # fewer rows or columns than this may be dot products
    DOTS = 12               # columns of dot products that a thread takes at least


cdef struct Plan:
    Product p
    int64_t results
    bint bias
    lnn_tail tail


# --- packing ---


cdef void pack_rows(const real* a, int64_t row, int64_t col, int64_t m, int64_t k, int64_t terms,
                    real* out) noexcept nogil:
    """m rows of k terms, a[i*row + j*col], into panels of `terms` terms: out[panel][j][i]. One of row and col is 1."""
    cdef Panels p = panels_of(m)
    cdef int64_t i, first
    for i in range(p.count):
        first = first_row(&p, i)
        if col == 1:
            rows_of(a + first * row, row, rows_in(&p, i), k, out + i * terms * LNN_ROWS)
        else:
            lines(a + first, col, rows_in(&p, i), k, out + i * terms * LNN_ROWS)


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
    """Strips first .. first+count of k rows of op(b), one after the other."""
    cdef int64_t t, columns, whole = min(count, p.n // p.width - first) if p.b_col == 1 else 0
    if whole > 0:
        bring(b + first * p.width, p.b_row, k, <int>whole, out)
    for t in range(max(whole, 0), count):
        columns = min(p.width, p.n - (first + t) * p.width)
        strip(b + (first + t) * p.width * p.b_col, p.b_row, p.b_col, k, columns, whole_vectors(columns, lanes(b)),
              out + t * k * p.width)


# --- many rows: panels and strips ---


cdef void strip_product(int64_t m, int64_t k, const real* panels, const real* strip, const real* bias, bint add,
                        real* c, int64_t ldc, int64_t columns, const Ahead* ahead) noexcept nogil:
    """c[:m, :columns] = (add ? itself : bias or 0) + panels @ strip; meanwhile call in what is wanted next."""
    cdef real part[LNN_ROWS * MAX_TILE]
    cdef Panels p = panels_of(m)
    cdef int64_t i, first, vectors = (columns + lanes(c) - 1) // lanes(c)
    cdef int mr
    cdef const real* start
    for i in range(p.count):
        first, mr = first_row(&p, i), rows_in(&p, i)
        start = bias + first if bias != NULL and not add else NULL
        if ahead.rows:
            call_in(ahead, i, p.count)
        if columns == vectors * lanes(c):
            panel(mr, <int>vectors, k, panels + i * k * LNN_ROWS, strip, start, add, c + first * ldc, ldc)
        else:
            panel(mr, <int>vectors, k, panels + i * k * LNN_ROWS, strip, start, False, &part[0], MAX_TILE)
            take(<const real*>&part[0], MAX_TILE, mr, columns, add, c + first * ldc, ldc)


cdef int64_t strips_at_once(const Product* p) noexcept nogil:
    return min(SLIM_TERMS // p.k, <int64_t>SLIM_STRIPS) if is_slim(p) else STRIPS


cdef bint is_slim(const Product* p) noexcept nogil:
    """Whether terms are so few that writing c along its rows counts (32 channels of 56 x 56 to 192: 1.4 times as fast)."""
    return 0 < 4 * p.k <= SLIM_TERMS


cdef void slim_product(int64_t m, int64_t k, const real* panels, const real* strips, int64_t columns, const real* bias,
                       bint add, real* c, int64_t ldc, Ahead* ahead) noexcept nogil:
    """c[:m, :columns] = (add ? itself : bias or 0) + panels @ strips: one panel after the other meets all strips, so that c is written along
    its rows; one strip after the other would touch as many pages as there are rows."""
    cdef Panels rows = panels_of(m)
    cdef int64_t i, t, width = LNN_FULL * lanes(c), whole = columns // width
    cdef const real* start = NULL
    for i in range(rows.count):
        if bias != NULL and not add:
            start = bias + first_row(&rows, i)
        if ahead.rows:
            call_in(ahead, i, rows.count)
        for t in range(whole):
            panel(rows_in(&rows, i), LNN_FULL, k, panels + i * k * LNN_ROWS, strips + t * k * width, start, add,
                  c + first_row(&rows, i) * ldc + t * width, ldc)
    ahead.rows = 0
    if whole * width < columns:
        strip_product(m, k, panels, strips + whole * k * width, bias, add, c + whole * width, ldc, columns - whole * width,
                      ahead)


cdef void many_rows(const Product* p, const real* a, const real* b, const real* bias, real* c, int64_t m0, int64_t m1,
                    int64_t first, int64_t stop, real* scratch) noexcept nogil:
    """Rows m0..m1, strips first..stop of one product."""
    cdef real* packed = scratch + p.panels
    cdef int64_t part, k, terms, t, i, count, parts
    cdef Ahead ahead
    cdef const real* rows
    cdef const real* ready
    cdef const real* left = scratch
    ahead.off = NULL
    for part in range(p.blocks):
        k = p.k * part // p.blocks
        terms = p.k * (part + 1) // p.blocks - k
        if p.panelled:
            left = a + panel_at(p, k, terms, m0)
        else:
            pack_rows(a + m0 * p.a_row + k * p.a_col, p.a_row, p.a_col, m1 - m0, terms, terms, scratch)
        rows = b + k * p.b_row
        t = first
        while t < stop:
            count = min(strips_at_once(p), stop - t)
            if p.packed:
                ready = b + strip_at(p, k, terms, t)
            else:
                strips(p, rows, terms, t, count, packed)
                ready = packed
            t += count
            parts = 1 if is_slim(p) else count
            for i in range(parts):
                ahead.rows = 0
                if p.b_col == 1 and t < stop and not p.packed:
                    ahead.rows = terms * (i + 1) // parts - terms * i // parts
                    ahead.place = <const char*>(rows + terms * i // parts * p.b_row + t * p.width)
                    ahead.step = p.b_row * sizeof(real)
                    ahead.length = (min(p.n, min(t + count, stop) * p.width) - t * p.width) * sizeof(real)
                if is_slim(p):
                    slim_product(m1 - m0, terms, left, ready, min(t * p.width, p.n) - (t - count) * p.width,
                                 bias + m0 if bias != NULL else NULL, False, c + m0 * p.n + (t - count) * p.width, p.n, &ahead)
                    continue
                strip_product(m1 - m0, terms, left, ready + i * terms * p.width,
                              bias + m0 if bias != NULL else NULL, part > 0,
                              c + m0 * p.n + (t - count + i) * p.width, p.n,
                              min(p.width, p.n - (t - count + i) * p.width), &ahead)


# --- b packed beforehand ---


cdef int64_t strip_at(const Product* p, int64_t k, int64_t terms, int64_t t) noexcept nogil:
    """Where strip t of the block of `terms` terms from k begins."""
    return (k * ((p.n + p.width - 1) // p.width) + terms * t) * p.width


cdef void set_blocks(Product* p, real unused) noexcept nogil:
    p.width = lnn_vectors(p.m) * lanes(&unused)
    p.blocks = (p.k + BLOCK - 1) // BLOCK


cdef int pack_all(const void* plan, char** at, real unused) noexcept nogil:
    cdef const Product* p = &(<const Plan*>plan).p
    cdef int64_t part, k, terms
    for part in range(p.blocks):
        k = p.k * part // p.blocks
        terms = p.k * (part + 1) // p.blocks - k
        strips(p, <const real*>at[0] + k * p.b_row, terms, 0, (p.n + p.width - 1) // p.width,
               <real*>at[1] + strip_at(p, k, terms, 0))
    return STEP_DONE


cdef int pack_f32(const void* plan, char** at) noexcept nogil:
    return pack_all(plan, at, <float>0)


cdef int pack_f64(const void* plan, char** at) noexcept nogil:
    return pack_all(plan, at, <double>0)


def pack(bint wide, int64_t rows, int64_t n, int64_t k, bint ta, bint tb):
    """A step (b, packed b) for the product of `rows` rows of op(a) and op(b), k x n; None where b is read as it lies."""
    cdef Plan plan
    cdef int item = 8 if wide else 4
    read_product(&plan.p, rows, n, k, ta, tb, (), (), ())
    if rows < FEW or is_dots(&plan.p) or n < 2 or k == 0:
        return None
    if wide:
        set_blocks(&plan.p, <double>0)
    else:
        set_blocks(&plan.p, <float>0)
    return make_step("pack", pack_f64 if wide else pack_f32, &plan, sizeof(plan),
                     (item * n * k, item * strip_at(&plan.p, k, 0, 0)), 1)


cdef bint is_dots(const Product* p) noexcept nogil:
    """Whether the product is one of dot products: few rows or columns, both factors along k."""
    return p.a_col == 1 and (p.n < THIN or (p.b_row == 1 and p.b_col != 1 and p.m < THIN))


# --- rows of a where they lie; few rows: b as well ---


cdef void rows_product(const Panels* p, int64_t k, const real* a, int64_t row, const int64_t* aoff, const real* b,
                       const int64_t* boff, const real* start, bint add, real* c, int64_t ldc,
                       int64_t columns) noexcept nogil:
    """c[m, j] = (add ? itself : start[m] or 0) + sum_k a[m*row + aoff[k]] * b[boff[k] + j]; b has whole vectors."""
    cdef const real* rows[LNN_ROWS]
    cdef real part[LNN_ROWS * MAX_TILE]
    cdef int64_t i, first, whole = whole_vectors(columns, lanes(c))
    cdef int mr, m
    for i in range(p.count):
        first, mr = first_row(p, i), rows_in(p, i)
        for m in range(mr):
            rows[m] = a + (first + m) * row
        if whole == columns:
            tile(mr, <int>(whole // lanes(c)), k, rows, aoff, b, boff, start + first if start != NULL else NULL, add,
                 c + first * ldc, ldc)
        else:
            tile(mr, <int>(whole // lanes(c)), k, rows, aoff, b, boff, start + first if start != NULL else NULL, False,
                 &part[0], MAX_TILE)
            take(<const real*>&part[0], MAX_TILE, mr, columns, add, c + first * ldc, ldc)


cdef void points_product(int vectors, int64_t k, const real* a, const int64_t* at, int64_t count, const int64_t* aoff, const real* b,
                         const int64_t* boff, bint add, real* c, int64_t ldc, Ahead* ahead) noexcept nogil:
    """c[m, j] = (add ? itself : 0) + sum_k a[at[m] + aoff[k]] * b[boff[k] + j] for m < count, j in `vectors` vectors; meanwhile
    call in what the tile after reads."""
    cdef const real* rows[LNN_TALLEST]
    cdef Panels p = panels_of(count)
    cdef int64_t i = 0, first = 0
    cdef int m, mr
    while first < count:
        if vectors == 1 and LNN_TALLEST > LNN_ROWS and count - first >= LNN_TALLEST:
            mr = LNN_TALLEST        # a single vector leaves too few sums under way
            p = panels_of(count - first - mr)
            i = 0
        else:
            mr = rows_in(&p, i)
            i += 1
        if ahead.rows and first + 2 * mr <= count:
            ahead.place = <const char*>(a + at[first + 2 * mr - 1])
            call_in(ahead, 0, 1)
        for m in range(mr):
            rows[m] = a + at[first + m]
        tile(mr, vectors, k, rows, aoff, b, boff, <const real*>NULL, add, c + first * ldc, ldc)
        first += mr


cdef void few_rows(const Product* p, const real* a, const real* b, const real* bias, real* c, int64_t first,
                   int64_t stop, real* scratch) noexcept nogil:
    """All rows (one panel) of tiles first..stop of one product, SHORT_BLOCK rows of b side by side."""
    cdef int64_t aoff[SHORT_BLOCK]
    cdef int64_t boff[SHORT_BLOCK]
    cdef int64_t part, k, terms, t, columns, whole
    cdef Panels panels = panels_of(p.m)
    cdef const real* columns_of
    row_offsets(&aoff[0], SHORT_BLOCK, p.a_col)
    for part in range((p.k + SHORT_BLOCK - 1) // SHORT_BLOCK):
        k = part * SHORT_BLOCK
        terms = min(<int64_t>SHORT_BLOCK, p.k - k)
        for t in range(first, stop):
            columns = min(p.width, p.n - t * p.width)
            whole = whole_vectors(columns, lanes(b))
            columns_of = b + k * p.b_row + t * p.width * p.b_col
            if p.b_col == 1 and whole == columns:
                row_offsets(&boff[0], terms, p.b_row)
            else:
                strip(columns_of, p.b_row, p.b_col, terms, columns, whole, scratch)
                columns_of = scratch
                row_offsets(&boff[0], terms, whole)
            rows_product(&panels, terms, a + k * p.a_col, p.a_row, &aoff[0], columns_of, &boff[0],
                         bias if part == 0 else NULL, part > 0, c + t * p.width, p.n, columns)


cdef void dot_products(int mr, int nr, int64_t k, const real** arow, const real** brow, bint add, real* c, int64_t ldo,
                       int64_t ldn) noexcept nogil:
    """`dots` for other modules: all tiles together are the largest function there is."""
    dots(mr, nr, k, arow, brow, add, c, ldo, ldn)


# --- who computes what ---


cdef void unit(const Product* p, const real* a, const real* b, const real* bias, real* c, int64_t index,
               int64_t blocks_m, int64_t blocks_t, real* scratch) noexcept nogil:
    cdef int64_t part_t = index % blocks_t, part_m = index // blocks_t % blocks_m
    cdef int64_t batch = index // (blocks_t * blocks_m), rest = batch, all_tiles = (p.n + p.width - 1) // p.width
    cdef int64_t m0 = p.m * part_m // blocks_m, m1 = p.m * (part_m + 1) // blocks_m
    cdef int64_t first = all_tiles * part_t // blocks_t, stop = all_tiles * (part_t + 1) // blocks_t
    cdef Panels whole = panels_of(p.m)
    cdef int i
    if p.panelled:
        m0, m1 = first_row(&whole, whole.count * part_m // blocks_m), first_row(&whole, whole.count * (part_m + 1) // blocks_m)
    c += batch * p.m * p.n
    for i in range(p.rank - 1, -1, -1):
        a += rest % p.size[i] * p.a_step[i]
        b += rest % p.size[i] * p.b_step[i]
        if bias != NULL:
            bias += rest % p.size[i] * p.bias_step[i]
        rest //= p.size[i]
    if p.as_dots:
        dot_rows(p, a, b, c, m0, m1, first * p.width, min(p.n, stop * p.width), scratch)
    elif p.m < FEW:
        few_rows(p, a, b, bias, c, first, stop, scratch)
    else:
        many_rows(p, a, b, bias, c, m0, m1, first, stop, scratch)
    if p.column_bias != NULL or p.tail != NULL:
        end_rows(p, c, m0, m1, first * p.width, min(p.n, stop * p.width))


cdef Split split_work(int64_t items, int64_t m, int64_t rows, int64_t least_rows, int64_t tiles, int64_t most_tiles,
                      int threads) noexcept nogil:
    """Parts of m rows and of `tiles` tiles, for each of `items`: few, but enough to keep all threads busy to the end.

    Tiles are cut finely where that costs little (eight or more), so that a thread that was held up does not hold up the
    others. Rows, for each part of which the tiles are packed again, are cut (to a quarter or more), and tiles more finely, only
    until there are two parts per thread; to single tiles and panels only lest a thread have none.
    """
    cdef Split s
    cdef int stage
    cdef int64_t few, enough
    s.m = max((m + rows - 1) // rows, 1)
    s.t = max((tiles + most_tiles - 1) // most_tiles, 1)
    if threads == 1:
        return s
    for stage in range(2):
        few, enough = 8, 6 * threads
        if stage == 1:
            few, enough = 2, 2 * threads
        while items * s.m * s.t < enough and tiles >= 2 * few * s.t:
            s.t *= 2
        few = max(rows // 4, least_rows) if stage == 0 else least_rows
        while items * s.m * s.t < 2 * threads and m >= 2 * few * s.m:
            s.m *= 2
    while items * s.m * s.t < threads and tiles >= 2 * s.t:
        s.t *= 2
    while items * s.m * s.t < threads and min(m // 2, least_rows) >= LNN_ROWS * s.m:
        s.m *= 2
    return s


cdef int multiply(Product* p, const real* a, const real* b, const real* bias, real* c) noexcept nogil:
    """c = op(a) @ op(b) + bias; the status is 1 when there was no memory."""
    p.packed = p.turned = False
    return multiply_packed(p, a, b, bias, c)


cdef int multiply_packed(Product* p, const real* a, const real* b, const real* bias, real* c) noexcept nogil:
    """The same, with b as `p.packed` says."""
    cdef double work = <double>p.batch * p.m * p.n * p.k / 8
    cdef int threads = threads_for(<Py_ssize_t>min(work, 1e18))
    cdef int64_t rows, units, scratch_size, i
    cdef Split s
    cdef Queue queue
    cdef real* memory
    cdef real* scratch
    set_blocks(p, <real>0)
    p.as_dots = bias == NULL and is_dots(p)
    if p.as_dots:
        p.width = DOTS      # nothing is packed: cut more finely, so that also one row is work for several threads
    rows = PANEL_BYTES // <int64_t>sizeof(real)
    s = split_work(p.batch, p.m, p.m if p.m < FEW else rows, p.m if p.m < FEW else 24,
                   (p.n + p.width - 1) // p.width, 64, threads)
    units = p.batch * s.m * s.t
    p.panels = panels_size((p.m + s.m - 1) // s.m, min(p.k, <int64_t>BLOCK))
    scratch_size = p.panels + strips_at_once(p) * min(p.k, <int64_t>BLOCK) * p.width
    if p.as_dots or p.m < FEW:
        scratch_size = max(THIN * min(p.k, <int64_t>LONG_BLOCK), <int64_t>SHORT_BLOCK * p.width)
    scratch_size = whole_lines(scratch_size)
    memory = <real*>take_scratch((threads * scratch_size + SPARE_LINE) * sizeof(real))
    if memory == NULL:
        return 1
    scratch = aligned(memory)
    if units == 1 or threads == 1:
        for i in range(units):
            unit(p, a, b, bias, c, i, s.m, s.t, scratch)
    else:
        open_queue(&queue, units, threads)
        for i in prange(units, schedule="dynamic", num_threads=threads):
            unit(p, a, b, bias, c, draw(&queue, omp_get_thread_num()), s.m, s.t,
                 scratch + omp_get_thread_num() * scratch_size)
    give_scratch(memory)
    return 0


# --- as a step ---


cdef int run(const void* plan, char** at, real unused) noexcept nogil:
    cdef Product p = (<const Plan*>plan).p
    cdef lnn_tail tail = (<const Plan*>plan).tail
    cdef int out = 2 + (<const Plan*>plan).bias + tail.adds
    if (<const Plan*>plan).results == 0:
        return STEP_DONE
    p.column_bias = at[2] if (<const Plan*>plan).bias else NULL
    p.tail = NULL
    if tail.adds or tail.act != LNN_PLAIN:
        tail.other = <size_t>at[out - 1] - <size_t>at[out]
        p.tail = &tail
    if p.k == 0:
        memset(at[out], 0, (<const Plan*>plan).results * sizeof(real))
        end_rows(&p, <real*>at[out], 0, (<const Plan*>plan).results // p.n, 0, p.n)
    elif multiply_packed(&p, <const real*>at[p.turned], <const real*>at[not p.turned], <const real*>NULL, <real*>at[out]):
        return STEP_NO_MEMORY
    return STEP_DONE


cdef int run_f32(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <float>0)


cdef int run_f64(const void* plan, char** at) noexcept nogil:
    return run(plan, at, <double>0)


def step(
    bint wide, int64_t a_size, int64_t b_size, int64_t m, int64_t n, int64_t k, bint ta, bint tb, tuple batch,
    tuple a_step, tuple b_step, bint bias=False, bint other=False, str act="", double slope=0, bint packed=False,
):
    """c[...] = op(a[...]) @ op(b[...]) on a (`a_size` values, op(a) m x k), b (`b_size`, op(b) k x n) and c (batch x m x n).

    `a_step`, `b_step` are the distances of neighbours on each batch axis; `wide` is float64, else float32. With `bias` a
    third array is added to every row, with `other` one like c; `act` of step.ACTS comes last. With `packed`, b is what `pack` made of
    it, `b_size` values as before.
    """
    cdef Plan plan
    cdef int item = 8 if wide else 4
    plan.bias = bias
    read_tail(&plan.tail, other, act, slope)
    read_product(&plan.p, m, n, k, ta, tb, batch, a_step, b_step)
    if <double>plan.p.batch * m * n > 1e18 or a_size > 1e18 or b_size > 1e18 or min(a_size, b_size) < 0:
        refuse("sizes overflow")
    plan.results = plan.p.batch * m * n
    if plan.results and (span(&plan.p, True) > a_size or span(&plan.p, False) > b_size):
        refuse("an operand is shorter than the sizes say")
    merge_rows(&plan.p, ta)
    if packed:
        if plan.p.batch != 1:
            refuse("a packed factor is the same for the whole batch")
        b_size = pack(wide, plan.p.m, n, k, ta, tb).sizes[1] // item
        plan.p.packed = True
    elif n == 1 and ta:
        exchange(&plan.p)
    arrays = [a_size, b_size, *([n] if bias else []), *([plan.results] if other else []), plan.results]
    return make_step("matmul", run_f64 if wide else run_f32, &plan, sizeof(plan), tuple([item * size for size in arrays]), 1, None,
                     k > 0 and plan.results > 0)
