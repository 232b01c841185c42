"""Scratch from the heap, of which one large piece waits for its next use.

What is longer than FLOOR malloc takes from the system each time and gives back at once, and a page fault per 4 kB is what a layer
then begins with (41 MB of planes: 10,000 of them). So one such piece, of MOST bytes at most, stays for whichever thread asks next, and goes
when it is too short, or when PATIENCE smaller pieces have been asked for since. A piece says how long it is in its second word.
"""

cdef extern from *:
    """
    #include <stdlib.h>

    enum { LNN_FLOOR = 32 << 20, LNN_MOST = 128 << 20, LNN_PATIENCE = 1024 };

    static char *lnn_waiting;
    static unsigned lnn_clock, lnn_since;

    static __attribute__((unused)) char *lnn_heap_take(size_t size)
    {
        const unsigned now = __atomic_add_fetch(&lnn_clock, 1, __ATOMIC_RELAXED);
        char *piece = NULL;
        if (size >= LNN_FLOOR || now - __atomic_load_n(&lnn_since, __ATOMIC_RELAXED) > LNN_PATIENCE)
            piece = __atomic_exchange_n(&lnn_waiting, NULL, __ATOMIC_ACQ_REL);
        if (piece && size >= LNN_FLOOR && ((size_t *)piece)[1] >= size) return piece;
        free(piece);
        piece = malloc(size);
        if (piece) ((size_t *)piece)[1] = size;
        return piece;
    }

    static __attribute__((unused)) void lnn_heap_give(char *piece)
    {
        const size_t size = ((size_t *)piece)[1];
        if (size >= LNN_FLOOR && size <= LNN_MOST) {
            __atomic_store_n(&lnn_since, __atomic_load_n(&lnn_clock, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
            piece = __atomic_exchange_n(&lnn_waiting, piece, __ATOMIC_ACQ_REL);
        }
        free(piece);
    }
    """
    # At least 16 bytes; NULL where there is no memory. The first word is the caller's.
    char* heap_take "lnn_heap_take"(size_t size) noexcept nogil
    void heap_give "lnn_heap_give"(char* piece) noexcept nogil
