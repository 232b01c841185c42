/* What may follow an output's sum before it is left alone: a cell of another array is added, then an activation, or the gate of
 * a relu's gradient, which is open where a cell of a third array is positive.
 *
 * out = act(out + other), element by element, in this order: the same two roundings as separate operations, hence the same
 * bits. `other` and `gate` are laid out as the output, so their cells are found from the output's by one distance in bytes.
 * NaN stays NaN, so that whoever looks for NaN afterwards (conv.pyx) still finds it, unless a gate is shut, where it is 0 in any case.
 */
#ifndef LNN_TAIL_H
#define LNN_TAIL_H

#include <stdint.h>

enum { LNN_PLAIN, LNN_RELU, LNN_LEAKY, LNN_GATE };

typedef struct {
    uintptr_t other;    /* from a cell of the output to the one that is added, modulo the address space, */
    uintptr_t gate;     /* and to the one that opens LNN_GATE */
    int adds;
    int act;
    double slope;       /* of LNN_LEAKY below zero */
} lnn_tail;

#endif
