"""One record per primitive: what it takes and means, how it is computed and differentiated, how exact it is.

===============  =========================================================================================
``elementwise``  arithmetic, smooth functions, comparisons, choices, and the gates that are their slopes
``activation``   relu's relatives
``broadcast``    sum and broadcast_to, each other's transpose
``reduce``       extremes with their winners; logsumexp, softmax, log_softmax
``norm``         standardize and its tangent, from which the normalisations are made
``normalize``    the same with a factor and a term, fused: batch normalisation
``affine``       a factor and a term per channel
``dropout``      seeded
``linear``       matmul
``loss``         look-ups that skip an ignored index; cross entropy
``pair_loss``    losses of a prediction and a target of one shape
``conv``         conv, conv_input, conv_weight; unfold and fold
``pool``         max, average and their transposes; ``smooth_pool`` the smooth maximum
``shape``        reshape, transpose, slice, pad, concat, flip
``indexing``     gather, scatter_add, take and their transposes
``identity``     alias and cast
``optim``        optimiser updates, one pass over memory each
===============  =========================================================================================
"""

from __future__ import annotations

from importlib import import_module

from lean_nn.primitive import Primitive, registry

# In the order in which programs are likely to need them.
FAMILIES = ("elementwise", "shape", "conv", "linear", "pool", "activation", "broadcast", "reduce", "normalize", "norm",
            "affine", "indexing", "identity", "dropout", "loss", "pair_loss", "smooth_pool", "optim")  # fmt: skip


def find(name: str) -> Primitive | None:
    """The primitive called `name`; families are imported until one has it. None if none has."""
    for family in FAMILIES:
        if name in registry:
            break
        import_module(f"lean_nn.ops.{family}")
    return registry.get(name)


def load_all() -> dict[str, Primitive]:
    """The registry with all families in it."""
    for family in FAMILIES:
        import_module(f"lean_nn.ops.{family}")
    return registry
