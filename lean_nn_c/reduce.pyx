"""Reductions as steps: sums over any axes, extremes, the softmax family, cross entropy, standardisation.

Arrays are C-contiguous, float32 or float64, and seen as (outer, n, inner), reduced over n; standardisation sees
(A, G, B). The loops are in ``lines.h`` and ``standard.h``; here: dtype, tasks, threads.
A task is fixed by the shape and written by one thread, so the bits do not depend on the number of threads.
"""

from cython.parallel cimport prange
from libc.math cimport INFINITY, NAN
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from lean_nn_c._indices cimport inside
from lean_nn_c._lines cimport (
    COLUMNS, CROSS, CROSS_BACK, EXPECT, LOGSUMEXP, LOG_SOFTMAX, NLL, NLL_BACK, SOFTMAX, SOFT_SLOPE, UNLOG, lnn_column_sum_f32,
    lnn_column_sum_f64, lnn_counted, lnn_extreme_f32, lnn_extreme_f64, lnn_lines, lnn_nll_f32, lnn_nll_f64, lnn_row_extremes_f32, lnn_row_extremes_f64,
    lnn_row_sum_f32, lnn_row_sum_f64, lnn_row_sums_f32, lnn_row_sums_f64, lnn_soft_run, lnn_soft_task_f32,
    lnn_soft_task_f64, lnn_soft_tasks,
)
from lean_nn_c._standard cimport LNN_ROLES, StandardPlan, lnn_standard_plan, pick, standard_f32, standard_f64
from lean_nn_c._types cimport real
from lean_nn_c.index import blame
from lean_nn_c.step cimport STEP_BAD_INDEX, STEP_DONE, STEP_NO_MEMORY, give_scratch, make_step, take_scratch
from lean_nn_c.threads cimport threads_for

cdef enum:
    SPLIT = 8192        # a longer sum is cut into parts of this length, which threads share
    TASK = 4096         # elements a task has at least, where lines are short
    EXP_COST = 8        # one exp in additions
    PARTS = 64          # of a line whose extreme threads look for together
    PASSES = 72         # of one sum: 32 groups of axes at most, few of them so long that they are cut


SUM_LINE = SPLIT     # values of a line that are summed without parts


def roundings(n):
    """How many roundings a sum of `n` terms along one axis collects at most: the n of its γₙ."""
    if n <= SPLIT:
        return min(max(n - 1, 0), 31 + max(0, (max(n, 1) - 1) // 32).bit_length())
    return roundings(SPLIT) + roundings(-(-n // SPLIT))


def sum_roundings(tuple shape, tuple axes):
    """The same for `sum` over `axes` of `shape`: adjacent axes are summed as one, others one after another."""
    total, run = 0, 1
    for axis, n in enumerate(shape):
        if axis in axes:
            run *= n
        else:
            total, run = total + roundings(run), 1
    return total + roundings(run)


cdef int extents(Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) except -1:
    if outer < 0 or n < 0 or inner < 0 or <double>outer * n * inner > 1e18:
        raise ValueError(f"reduce kernel: sizes are not negative and fit into memory; got ({outer}, {n}, {inner})")
    return 0


# -------------------------------------------------------------------------------------------------- sum


cdef inline void sum_task(const real* x, real* y, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t parts, Py_ssize_t task,
                          Py_ssize_t blocks) noexcept nogil:
    """One block of columns (or the row) of one part of one outer index."""
    cdef Py_ssize_t block = task % blocks
    cdef Py_ssize_t line = task // blocks       # outer · parts + part
    cdef Py_ssize_t part = line % parts
    cdef Py_ssize_t rows = min(<Py_ssize_t>SPLIT, n - part * SPLIT)
    cdef const real* src = x + ((line // parts) * n + part * SPLIT) * inner + block * COLUMNS
    cdef real* dst = y + line * inner + block * COLUMNS
    cdef int columns = <int>min(<Py_ssize_t>COLUMNS, inner - block * COLUMNS)
    if real is float:
        if inner == 1:
            dst[0] = lnn_row_sum_f32(src, rows)
        else:
            lnn_column_sum_f32(src, rows, inner, columns, dst)
    else:
        if inner == 1:
            dst[0] = lnn_row_sum_f64(src, rows)
        else:
            lnn_column_sum_f64(src, rows, inner, columns, dst)


cdef inline void row_sums(const real* x, real* y, Py_ssize_t n, Py_ssize_t rows) noexcept nogil:
    if real is float:
        lnn_row_sums_f32(x, y, n, rows)
    else:
        lnn_row_sums_f64(x, y, n, rows)


cdef void sum_parts(const real* x, real* y, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t parts) noexcept nogil:
    """y[o, p, i] = Σ x[o, r, i] over the rows r of part p."""
    cdef Py_ssize_t blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t tasks = outer * parts * blocks
    cdef Py_ssize_t size = min(n, <Py_ssize_t>SPLIT) * min(inner, <Py_ssize_t>COLUMNS)
    cdef Py_ssize_t each = max(<Py_ssize_t>1, TASK // max(size, <Py_ssize_t>1))
    cdef Py_ssize_t bundle, task, bundles = (tasks + each - 1) // each
    cdef int threads = threads_for(outer * n * inner)
    if threads == 1 and inner == 1 and parts == 1:
        row_sums(x, y, n, outer)
        return
    if threads == 1:
        for task in range(tasks):
            sum_task(x, y, n, inner, parts, task, blocks)
        return
    for bundle in prange(bundles, num_threads=threads, schedule="static"):
        if inner == 1 and parts == 1:
            row_sums(x + bundle * each * n, y + bundle * each, n, min(outer - bundle * each, each))
            continue
        for task in range(bundle * each, min(tasks, (bundle + 1) * each)):
            sum_task(x, y, n, inner, parts, task, blocks)


# One pass sums the middle axis of (outer, n, inner); where n is cut into parts, the next pass sums those. Every pass but
# the last writes to scratch, behind what the one before wrote.
cdef struct Pass:
    Py_ssize_t outer, n, inner, parts
    Py_ssize_t to               # element of the scratch; of no meaning in the last pass

cdef struct SumPlan:
    Py_ssize_t cells, results, scratch      # in elements
    int passes
    Pass run[PASSES]


cdef int run_sum(const void* plan, char** at, real unused) noexcept nogil:
    cdef const SumPlan* p = <const SumPlan*>plan
    cdef const Pass* job
    cdef const real* x = <const real*>at[0]
    cdef real* scratch = NULL
    cdef real* y
    cdef int k
    if p.scratch:
        scratch = <real*>take_scratch(p.scratch * sizeof(real))
        if scratch == NULL:
            return STEP_NO_MEMORY
    if p.cells == 0:
        memset(at[1], 0, p.results * sizeof(real))
    elif p.passes == 0:
        memcpy(at[1], at[0], p.cells * sizeof(real))
    for k in range(p.passes):
        job = &p.run[k]
        y = scratch + job.to if k < p.passes - 1 else <real*>at[1]
        sum_parts(x, y, job.outer, job.n, job.inner, job.parts)
        x = y
    give_scratch(scratch)
    return STEP_DONE


cdef int sum_f32(const void* plan, char** at) noexcept nogil:
    return run_sum(plan, at, <float>0)


cdef int sum_f64(const void* plan, char** at) noexcept nogil:
    return run_sum(plan, at, <double>0)


cdef int add_passes(SumPlan* p, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner) except -1:
    """Passes that sum the middle axis."""
    cdef Py_ssize_t parts = 0
    while parts != 1:
        parts = max(<Py_ssize_t>1, (n + SPLIT - 1) // SPLIT)
        if p.passes == PASSES:
            raise ValueError(f"sum: at most {PASSES} passes over memory; got more; reshape the array first")
        p.run[p.passes] = Pass(outer, n, inner, parts, p.scratch)
        p.passes += 1
        p.scratch += outer * parts * inner
        n = parts
    return 0


def sum_step(bint wide, tuple shape, tuple axes):
    """x ↦ Σ x over `axes` (not negative). Adjacent axes are one; the innermost go first."""
    cdef SumPlan p
    cdef Py_ssize_t outer, inner = 1
    cdef int item = 8 if wide else 4
    groups, last = [], None     # [size, whether it is summed] per run of axes
    p.cells = p.results = 1
    p.scratch = p.passes = 0
    for axis, n in enumerate(shape):
        extents(p.cells, n, 1)
        p.cells *= n
        if axis not in axes:
            p.results *= n
        if n == 1:
            continue
        if last is not None and last[1] == (axis in axes):
            last[0] *= n
        else:
            last = [n, axis in axes]
            groups.append(last)
    if p.cells:
        outer = p.cells
        for n, summed in reversed(groups):
            outer //= n
            if summed:
                add_passes(&p, outer, n, inner)
            else:
                inner *= n
        if p.passes:
            p.scratch = p.run[p.passes - 1].to      # the last pass writes to the output
    return make_step("sum", sum_f64 if wide else sum_f32, &p, sizeof(p) - (PASSES - p.passes) * sizeof(Pass),
                     (item * p.cells, item * p.results), 1, None, p.scratch > 0)


# ---------------------------------------------------------------------------------------------- extremes


cdef inline void extreme_task(const real* x, real* y, int64_t* idx, Py_ssize_t n, Py_ssize_t inner, Py_ssize_t task,
                              Py_ssize_t blocks, bint least) noexcept nogil:
    cdef Py_ssize_t first = (task % blocks) * COLUMNS
    cdef Py_ssize_t at = (task // blocks) * n * inner + first
    cdef Py_ssize_t out = (task // blocks) * inner + first
    cdef int columns = <int>min(<Py_ssize_t>COLUMNS, inner - first)
    if real is float:
        lnn_extreme_f32(x + at, y + out, idx + out, n, inner, columns, least)
    else:
        lnn_extreme_f64(x + at, y + out, idx + out, n, inner, columns, least)


cdef inline void row_extremes(const real* x, real* y, int64_t* idx, Py_ssize_t n, Py_ssize_t rows, bint least) noexcept nogil:
    if real is float:
        lnn_row_extremes_f32(x, y, idx, n, rows, least)
    else:
        lnn_row_extremes_f64(x, y, idx, n, rows, least)


cdef void extreme_of_parts(const real* x, real* y, int64_t* idx, Py_ssize_t n, bint least, int threads) noexcept nogil:
    """Of one line: the first part whose extreme is that of all has it. There is nothing to round, so any cut gives the same."""
    cdef real best[PARTS]
    cdef int64_t place[PARTS]
    cdef Py_ssize_t part, size = (n + PARTS - 1) // PARTS, parts = (n + size - 1) // size
    for part in prange(parts, num_threads=threads, schedule="static"):
        row_extremes(x + part * size, best + part, place + part, min(size, n - part * size), 1, least)
    row_extremes(<const real*>best, y, idx, parts, 1, least)
    idx[0] = idx[0] * size + place[idx[0]]


cdef void extreme_all(const real* x, real* y, int64_t* idx, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner,
                      bint least) noexcept nogil:
    cdef Py_ssize_t task, blocks = (inner + COLUMNS - 1) // COLUMNS
    cdef Py_ssize_t each = max(<Py_ssize_t>1, TASK // max(n, <Py_ssize_t>1))
    cdef int threads = threads_for(outer * n * inner)
    if inner == 1:
        if threads == 1:
            row_extremes(x, y, idx, n, outer, least)
            return
        if outer < threads:
            for task in range(outer):
                extreme_of_parts(x + task * n, y + task, idx + task, n, least, threads)
            return
        for task in prange((outer + each - 1) // each, num_threads=threads, schedule="static"):
            row_extremes(x + task * each * n, y + task * each, idx + task * each, n, min(outer - task * each, each), least)
        return
    if threads == 1:    # without entering OpenMP, which costs more than a small reduction
        for task in range(outer * blocks):
            extreme_task(x, y, idx, n, inner, task, blocks, least)
        return
    for task in prange(outer * blocks, num_threads=threads, schedule="static"):
        extreme_task(x, y, idx, n, inner, task, blocks, least)


cdef struct LinePlan:
    Py_ssize_t outer, n, inner
    bint least                  # the minimum is wanted


cdef int run_extreme(const void* plan, char** at, real unused) noexcept nogil:
    cdef const LinePlan* p = <const LinePlan*>plan
    if p.outer * p.inner:
        extreme_all(<const real*>at[0], <real*>at[1], <int64_t*>at[2], p.outer, p.n, p.inner, p.least)
    return STEP_DONE


cdef int extreme_f32(const void* plan, char** at) noexcept nogil:
    return run_extreme(plan, at, <float>0)


cdef int extreme_f64(const void* plan, char** at) noexcept nogil:
    return run_extreme(plan, at, <double>0)


def extreme_step(str name, bint wide, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, bint least):
    """x ↦ (y, idx): the minimum (`least`) or maximum over n and the first index that has it; the first NaN wins."""
    cdef LinePlan p = LinePlan(outer, n, inner, least)
    cdef int item = 8 if wide else 4
    extents(outer, n, inner)
    if n == 0 and outer * inner:
        raise ValueError("reduce kernel: an extreme of nothing has no value")
    return make_step(name, extreme_f64 if wide else extreme_f32, &p, sizeof(p),
                     (item * outer * n * inner, item * outer * inner, 8 * outer * inner), 2)


# ----------------------------------------------------------------------------------------------- softmax


cdef void soft_all(const lnn_lines* job, Py_ssize_t outer, real unused) noexcept nogil:
    cdef Py_ssize_t task, tasks = lnn_soft_tasks(job, outer)
    cdef int threads = threads_for(outer * job.n * job.inner * EXP_COST)
    cdef lnn_soft_run run
    if real is float:
        run = lnn_soft_task_f32
    else:
        run = lnn_soft_task_f64
    if threads == 1:
        for task in range(tasks):
            run(job, outer, task)
        return
    for task in prange(tasks, num_threads=threads, schedule="static"):
        run(job, outer, task)


cdef struct SoftPlan:
    lnn_lines job
    Py_ssize_t outer
    int x, t, g, idx, y, dot        # where each stands among the step's arrays, −1 where there is none
    bint total                      # the results of the lines are added, and divided by `count`
    bint mean                       # the count is that of the classes that are not `ignore`


cdef inline void nll_task(const lnn_lines* job, Py_ssize_t first, Py_ssize_t end, real unused) noexcept nogil:
    if real is float:
        lnn_nll_f32(job, first, end)
    else:
        lnn_nll_f64(job, first, end)


cdef void nll_all(const lnn_lines* job, Py_ssize_t outer, real unused) noexcept nogil:
    cdef bint back = job.kind == NLL_BACK
    cdef Py_ssize_t each = max(<Py_ssize_t>1, TASK // max(job.inner * (job.n if back else 1), <Py_ssize_t>1)), task
    cdef int threads = threads_for(outer * job.inner * (job.n if back else 4))
    if threads == 1:
        nll_task(job, 0, outer, unused)
        return
    for task in prange((outer + each - 1) // each, num_threads=threads, schedule="static"):
        nll_task(job, task * each, min(outer, (task + 1) * each), unused)


cdef real line_sum(real* values, Py_ssize_t n, bint parts) noexcept nogil:
    """Σ values, which are overwritten; in the order of `sum` if by `parts`."""
    cdef Py_ssize_t part
    while parts and n > SPLIT:
        for part in range((n + SPLIT - 1) // SPLIT):
            values[part] = line_sum(values + part * SPLIT, min(<Py_ssize_t>SPLIT, n - part * SPLIT), False)
        n = (n + SPLIT - 1) // SPLIT
    if real is float:
        return lnn_row_sum_f32(values, n)
    else:
        return lnn_row_sum_f64(values, n)


cdef int run_soft(const void* plan, char** at, real unused) noexcept nogil:
    cdef const SoftPlan* p = <const SoftPlan*>plan
    cdef lnn_lines job = p.job
    cdef Py_ssize_t i, lines = p.outer * job.inner
    cdef real* values = NULL
    cdef int results = 2 if p.dot >= 0 else 1
    if p.total and lines:
        values = <real*>take_scratch(results * lines * sizeof(real))
        if values == NULL:
            return STEP_NO_MEMORY
    job.x, job.t, job.g, job.y, job.dot = pick(at, p.x), pick(at, p.t), pick(at, p.g), at[p.y], pick(at, p.dot)
    job.idx, job.even = <const int64_t*>pick(at, p.idx), NULL
    if job.idx != NULL:
        if not inside(job.idx, lines, job.n, job.ignore, True):
            give_scratch(values)
            return STEP_BAD_INDEX
        if p.mean:
            job.count = lnn_counted(job.idx, lines, job.ignore)
    if values != NULL:
        job.y, job.dot = values, values + lines if p.dot >= 0 else NULL
    if job.kind == NLL or job.kind == NLL_BACK:
        nll_all(&job, p.outer, unused)
    elif lines * job.n:
        soft_all(&job, p.outer, unused)
    elif job.kind == LOGSUMEXP or job.kind == EXPECT:
        for i in range(lines):      # of nothing: log 0, and 0/0; the others have no element then
            (<real*>job.y)[i] = -INFINITY if job.kind == LOGSUMEXP else NAN
    for i in range(results if p.total else 0):
        (<real*>at[p.y + i])[0] = <real>(line_sum(values + i * lines, lines, i == 1) / job.count)
    give_scratch(values)
    return STEP_DONE


cdef int soft_f32(const void* plan, char** at) noexcept nogil:
    return run_soft(plan, at, <float>0)


cdef int soft_f64(const void* plan, char** at) noexcept nogil:
    return run_soft(plan, at, <double>0)


# what each reads, in the order of its arguments
KINDS = {
    "logsumexp": (LOGSUMEXP, "x"), "softmax": (SOFTMAX, "x"), "log_softmax": (LOG_SOFTMAX, "x"), "expect": (EXPECT, "tx"),
    "softmax_slope": (SOFT_SLOPE, "tx"), "log_softmax_transpose": (UNLOG, "tx"), "cross_entropy": (CROSS, "xi"),
    "cross_entropy_transpose": (CROSS_BACK, "gxi"), "log_softmax, dual": (LOG_SOFTMAX, "xt"), "cross_entropy, dual": (CROSS, "xit"),
    "logsumexp, dual": (LOGSUMEXP, "xt"), "nll_loss": (NLL, "xi"), "nll_loss_transpose": (NLL_BACK, "gi"),
}


def soft_step(str name, bint wide, Py_ssize_t outer, Py_ssize_t n, Py_ssize_t inner, int64_t ignore=0, double smoothing=0,
              str reduction="none"):
    """Along the lines of n of (outer, n, inner), by name: see lines.h. The last three are those of losses over classes.

    "…, dual": the tangents as well, where x moves by t.
    """
    cdef SoftPlan p
    cdef int item = 8 if wide else 4
    kind, roles = KINDS[name]
    extents(outer, n, inner)
    p.outer, p.y, p.dot = outer, len(roles), len(roles) + 1 if name.endswith("dual") else -1
    p.x, p.t, p.g, p.idx = roles.find("x"), roles.find("t"), roles.find("g"), roles.find("i")
    p.total, p.mean = kind in (CROSS, NLL) and reduction != "none", reduction == "mean"
    p.job.n, p.job.inner, p.job.kind, p.job.one = n, inner, kind, reduction != "none"
    p.job.smooth, p.job.count, p.job.ignore = smoothing, 1, ignore
    every, lines = item * outer * n * inner, item * outer * inner
    sizes = {"x": every, "t": every, "g": item if p.job.one else lines, "i": 8 * outer * inner}
    result = item if p.total else lines if kind in (LOGSUMEXP, EXPECT, CROSS, NLL) else every
    outputs = 1 if p.dot < 0 else 2
    return make_step(name, soft_f64 if wide else soft_f32, &p, sizeof(p), (*[sizes[role] for role in roles], *[result] * outputs), outputs,
                     None, p.total, lambda *arrays: blame(name, "gather", arrays[roles.index("i")], n, ignore))


# ------------------------------------------------------------------------------------------- standardise


ROLES = ("x", "t", "mean", "rstd", "w", "b", "g_mean", "g_rstd", "y", "first", "second", "v", "w_dot", "b_dot", "y_dot",
         "first_dot", "second_dot", "other", "gate", "kept")


def standard_step(str name, bint wide, tuple roles, int outputs, Py_ssize_t A, Py_ssize_t G, Py_ssize_t B, double eps=0,
                  bint tangents=False, Py_ssize_t S=0, Py_ssize_t W=0, bint relu=False):
    """Standardisation of (A, G, B) per g, or its slope where there is a `t`; `roles` name the arrays, outputs last.

    Without `t`: y = w·(x − mean)·rstd + b, first = mean, second = rstd = 1/√(variance + eps); w and b may be missing, and so may y,
    where statistics are all that is wanted.
    With it: y = w·rstd·(t − m(t) − z·m(z·t)) + (g_mean − g_rstd·rstd²·z)/n, z = (x − mean)·rstd, or x without `mean`; w, g_mean
    and g_rstd may be missing. `first` and `second`, if wanted: Σ t and Σ t·z per group, or with `tangents` m(t) and
    −rstd²·m(z·t). Without `t`, but with a `v`: the tangents of the three results as well, where x moves by v, and w and b
    by w_dot and b_dot, if these are there. Where groups are rows: `relu`, `other`, `gate`, `kept`, given statistics (standard.h).

    Where W is not 0, A is 1, and w and b are not per group: element e of the array has the (e div S mod W)-th of W numbers. With
    `t` and without `tangents` it is then w·t that stands for t in y, and `first` and `second` are sums per such number.
    """
    cdef StandardPlan p
    cdef int item = 8 if wide else 4
    cdef bint slope = "t" in roles
    extents(A, G, B)
    if set(roles) - set(ROLES) or len(set(roles)) != len(roles) or "x" not in roles or not {"y", "first"}.intersection(roles) or (slope or "v" in roles) and "y" not in roles:
        raise ValueError(f"{name}: different roles among {ROLES}, x and y at least, or x and statistics; got {roles}")
    if ("rstd" not in roles) if slope else not ({"first", "second"} <= set(roles) or {"mean", "rstd"} <= set(roles)):
        raise ValueError(f"{name}: a slope has rstd, and the map itself first and second, or mean and rstd; got {roles}")
    more = {"other", "gate", "kept"}.intersection(roles) or relu or (not slope and "mean" in roles)
    gated = not slope or relu and {"mean", "w"} <= set(roles) and ("gate" in roles or {"b", "other"}.intersection(roles) == {"b"})
    if more and (W or B == 1 or tangents or "v" in roles or not gated):
        raise ValueError(f"{name}: more than the map where groups are rows; in a slope a gate; got {(A, G, B)}, {roles}")
    if W and (A != 1 or S < 1 or B % S or W % max(B // S, 1) or G * B % (W * S) or "w" not in roles or ("b" in roles) == slope
              or (slope and ("mean" not in roles or "first" not in roles or "second" not in roles))):
        raise ValueError(f"{name}: features divide groups, and groups samples; got {(A, G, B)}, {W} features of {S}, {roles}")
    p.job.A, p.job.G, p.job.B, p.job.eps, p.job.tangents, p.job.S, p.job.W, p.job.relu = A, G, B, eps, tangents, S, W, relu
    p.job.left, p.job.alone, p.outer = 0, False, 1
    p.empty = 0 if slope and not tangents else NAN
    for i in range(LNN_ROLES):
        p.number[i] = roles.index(ROLES[i]) if ROLES[i] in roles else -1
    p.job.t = <const void*>roles if slope else NULL     # only looked at for whether there is one
    sizes = {role: item * (A * G * B if role in ("x", "t", "y", "v", "y_dot", "other", "gate", "kept") else G) for role in roles}
    if W:
        sizes.update(dict.fromkeys(["w", "b", "w_dot", "b_dot"] + (["first", "second"] if slope and not tangents else []), item * W))
    scratch = A * G * B > 0 and lnn_standard_plan(&p.job, item) > 0
    return make_step(name, standard_f64 if wide else standard_f32, &p, sizeof(p), tuple([sizes[role] for role in roles]), outputs,
                     None, scratch)


def variance_step(str name, bint wide, str roles, Py_ssize_t outer, Py_ssize_t A, Py_ssize_t G, Py_ssize_t B, double left):
    """Σ (x − mean)² / left of (outer, A, G, B) per outer and g, and how it moves where x moves by t.

    `roles` are the arrays in their order: x, t, y for the variance, d for its tangent.
    """
    cdef StandardPlan p
    cdef int item = 8 if wide else 4
    extents(outer * A, G, B)
    p.job.A, p.job.G, p.job.B, p.job.eps, p.job.tangents, p.job.S, p.job.W, p.job.relu = A, G, B, 0, False, 0, 0, False
    p.job.t = p.job.scratch = NULL
    p.job.left, p.job.alone, p.outer, p.empty = left, True, outer, NAN
    for i in range(LNN_ROLES):
        p.number[i] = roles.find({"x": "x", "v": "t", "second": "y", "second_dot": "d"}.get(ROLES[i], " "))
    sizes = tuple([item * outer * G * (A * B if role in "xt" else 1) for role in roles])
    return make_step(name, standard_f64 if wide else standard_f32, &p, sizeof(p), sizes, ("y" in roles) + ("d" in roles), None, sizes[0] > 0)
