"""What this build is and what this machine can run."""

cdef extern from *:
    """
    #if defined(__x86_64__) || defined(_M_X64)
    static int lnn_runs(int level) {
        __builtin_cpu_init();
        int v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("ssse3");
        int v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
        int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
                 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
        return level == 0 ? 1 : level == 2 ? v2 : level == 3 ? v3 : v4;
    }
    static int lnn_halves(void) {
        __builtin_cpu_init();
        return __builtin_cpu_is("amdfam19h");
    }
    #else
    static int lnn_runs(int level) { return level == 0; }
    static int lnn_halves(void) { return 0; }
    #endif
    #ifdef _OPENMP
    #define LNN_OPENMP _OPENMP
    #else
    #define LNN_OPENMP 0
    #endif
    #if defined(__clang__)
    #define LNN_COMPILER __VERSION__
    #elif defined(__GNUC__)
    #define LNN_COMPILER "GCC " __VERSION__
    #else
    #define LNN_COMPILER "unknown"
    #endif
    """
    int lnn_runs(int level)
    int lnn_halves()
    int LNN_OPENMP
    const char* LNN_COMPILER

_LEVEL = {"generic": 0, "x86_64_v2": 2, "x86_64_v3": 3, "x86_64_v4": 4}

ISA_LEVELS = tuple(_LEVEL)
OPENMP = LNN_OPENMP
COMPILER = LNN_COMPILER.decode("ascii", "replace")


def runs(str isa):
    """Whether this machine executes the instructions of level `isa`."""
    return bool(lnn_runs(_LEVEL[isa]))


def pays(str isa):
    """Whether this machine gains by level `isa`: Zen 4 computes vectors of 64 bytes by halves, hence no faster than v3's, and
    short rows and depthwise layers, which leave more of such a vector unused, are slower (by a third on 56 x 56 cells)."""
    return runs(isa) and not (_LEVEL[isa] == 4 and lnn_halves())


def foresees():
    """Whether this machine calls in four arrays that are read and written in turn before they are asked for. Zen 5 does: where chains
    ask, it is later by a fifth. Zen 3 and Zen 4 do not, and are earlier by that (`_chain.pxd`). Others are taken for older ones,
    unless they gain by vectors of 64 bytes."""
    return pays("x86_64_v4")
