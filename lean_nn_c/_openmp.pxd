"""OpenMP's functions, with their meanings where there is no OpenMP."""

cdef extern from *:
    """
    #ifdef _OPENMP
    #include <omp.h>
    #else
    static inline int omp_get_thread_num(void) { return 0; }
    static inline int omp_get_num_threads(void) { return 1; }
    #endif
    """
    int omp_get_thread_num() noexcept nogil
    int omp_get_num_threads() noexcept nogil
