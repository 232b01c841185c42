/* A chain's operations on one stretch of cells after another (_chain.pxd plans them).
 *
 * How requests for lines that no cache holds are made decides, by trial and not by a theory that was proved (this machine shows no
 * counters): one array after the other, in a loop of its own that is called, value and tangent of relu take 0.9 to 1.0 of two
 * relus; the same loop inlined took 1.2, as did two arrays in turn. Try before changing it. Cell i of a place is at + i·move:
 * pointers that stay put are simpler, and neither faster nor slower.
 */
enum { LNN_PLACES = 24, LNN_TURN = 1024, LNN_BURST = 768 }; /* cells of a segment; bytes of one that is fetched */

typedef struct {
    int arity;
    lnn_unary unary;
    lnn_binary binary;
    lnn_where where;
    double p0, p1;
    int src[3], dst;
    int fetches, fetch[4];      /* places that it fetches for the operation after it, and which */
} lnn_chain_op;

/* Where the first cell of each place is, the bytes from one to the next, and whether each cell has one (1) or all have one (0). */
typedef struct {
    char *at[LNN_PLACES];
    ptrdiff_t move[LNN_PLACES];
    int step[LNN_PLACES];
} lnn_chain_view;

/* asks memory for bytes that will be read or written soon; where there are none nothing happens */
static LNN_APART void lnn_fetch(const char *a, ptrdiff_t bytes) {
    for (const char *end = a + bytes; a < end; a += 64) __builtin_prefetch(a, 1);
    __asm__ volatile(""); /* or the compiler finds that a call changes nothing, and leaves it out */
}

/* all operations on the `cells` cells that are looked at, `most` at a time; with `far` each first asks for its places */
static LNN_APART void lnn_chain_walk(const lnn_chain_op *ops, int count, const lnn_chain_view *v, ptrdiff_t cells, ptrdiff_t most, int far) {
    for (ptrdiff_t i = 0; i < cells; i += most) {
        const ptrdiff_t n = cells - i < most ? cells - i : most;
        for (const lnn_chain_op *op = ops; op < ops + count; op++) {
            const ptrdiff_t next = op == ops + count - 1 ? i + n : i;
            for (int k = 0; far && k < op->fetches; k++) {
                const int place = op->fetch[k];
                lnn_fetch(v->at[place] + next * v->move[place], n * v->move[place]);
            }
            const int a = op->src[0], b = op->src[1], c = op->src[2];
            char *y = v->at[op->dst] + i * v->move[op->dst], *first = v->at[a] + i * v->move[a];
            if (op->arity == 1) op->unary(first, y, n, op->p0, op->p1);
            else if (op->arity == 2) op->binary(first, v->at[b] + i * v->move[b], y, n, v->step[a], v->step[b], op->p0, op->p1);
            else op->where(first, v->at[b] + i * v->move[b], v->at[c] + i * v->move[c], y, n, v->step[a], v->step[b], v->step[c]);
        }
    }
}
