"""Which thread takes which part of a loop: the same one the same part, call after call, as long as it is free.

What a core has written it reads again quickly; what the other core has written costs it ten times as much. So the
parts lie in one line per thread, neighbours together, and a thread takes those of its own line first: what it computes now
begins where it left off in the call before, and where it had filled the planes. A thread whose line is empty helps out with
the next one, so none waits for another that was held up. Usage, with as many rounds as there are
parts (or until `draw` finds none):

    open_queue(&q, parts, threads)
    for i in prange(parts, schedule="dynamic", num_threads=threads):
        compute(draw(&q, omp_get_thread_num()))

Who computes a part never decides what it is. What a thread has made in its scratch for one part may serve the next one:
`holds` tells.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    typedef struct { int64_t next, stop, held; char apart[104]; } lnn_line;   /* no two in one cache line, nor its neighbour */
    typedef struct { int64_t count; lnn_line line[64]; } lnn_queue;

    static __attribute__((noinline, unused)) void lnn_open_queue(lnn_queue *q, int64_t parts, int threads)
    {
        q->count = threads < 1 ? 1 : threads < 64 ? threads : 64;
        for (int64_t i = 0; i < q->count; i++) {
            q->line[i].next = parts * i / q->count;
            q->line[i].stop = parts * (i + 1) / q->count;
            q->line[i].held = -1;
        }
    }

    static __attribute__((noinline, unused)) int64_t lnn_draw(lnn_queue *q, int thread)
    {
        for (int64_t i = 0; i < q->count; i++) {
            lnn_line *line = &q->line[(thread + i) % q->count];
            const int64_t part = __atomic_fetch_add(&line->next, 1, __ATOMIC_RELAXED);
            if (part < line->stop) return part;
        }
        return -1;
    }

    static __attribute__((noinline, unused)) int lnn_holds(lnn_queue *q, int thread, int64_t what)
    {
        if (thread >= q->count) return 0;
        const int64_t before = q->line[thread].held;
        q->line[thread].held = what;
        return before == what;
    }
    """
    ctypedef struct Queue "lnn_queue":
        pass
    void open_queue "lnn_open_queue"(Queue* q, int64_t parts, int threads) noexcept nogil
    # The next part for a thread; -1 when all have been drawn.
    int64_t draw "lnn_draw"(Queue* q, int thread) noexcept nogil
    # Whether a thread made `what` last; from now on it did.
    bint holds "lnn_holds"(Queue* q, int thread, int64_t what) noexcept nogil
