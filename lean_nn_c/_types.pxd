"""The number types of the kernels, in one place."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

ctypedef fused real:
    float
    double
