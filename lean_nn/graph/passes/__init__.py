"""Passes: functions from graph to graph that leave its meaning alone. `PASSES` is the order in which they run.

A pass that finds nothing to do gives the graph it was given.

=================  ==========================================================================  ==============
pass               what it does                                                                same bits
=================  ==========================================================================  ==============
``constants``      computes what depends on constants only                                     yes
``common``         computes equal expressions once                                             yes
``dead``           drops what nobody reads, and the indices of a max pooling that nobody reads  yes
``gates``          a relu's gradient behind max pooling is taken on the pooled side            yes
``winners``        sums over a gradient that max pooling spreads are taken over its winners     within a bound
``affine``         batch norm (or any scale and shift per channel) into the convolution before  within a bound
``norms``          a residual, a relu or a gate beside batch norm run in its own passes over memory  yes
``tails``          a sum and an activation after a convolution or product run inside it        yes
``gradients``      a convolution's two gradients are computed together                         within a bound
``heads``          relu(batch norm) is made by the convolutions that read it, as they read     yes
``recompute``      relu(batch norm) is made again for its gradients, where it would have left the cache  yes
``chains``         elementwise operations on one shape run as one loop                         yes
``prepack``        constant weights are packed for products, transformed for Winograd's         within a bound
=================  ==========================================================================  ==============

``in-place`` and ``concat`` belong to the planner (``lean_nn/graph/plan.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from lean_nn.graph.ir import Graph
from lean_nn.graph.passes.affine import fold_affine
from lean_nn.graph.passes.chains import fuse_chains
from lean_nn.graph.passes.gates import gate_before_scatter
from lean_nn.graph.passes.gradients import join_gradients, read_through
from lean_nn.graph.passes.layers import fuse_tails
from lean_nn.graph.passes.norms import join_norms, recompute
from lean_nn.graph.passes.prepack import prepack
from lean_nn.graph.passes.simplify import common_subexpressions, drop_dead, fold_constants
from lean_nn.graph.passes.winners import sum_over_winners

Pass = Callable[[Graph], Graph]
PASSES: dict[str, Pass] = {
    "constants": fold_constants,
    "common": common_subexpressions,
    "dead": drop_dead,
    "gates": gate_before_scatter,
    "winners": sum_over_winners,
    "affine": fold_affine,
    "norms": join_norms,
    "tails": fuse_tails,
    "gradients": join_gradients,
    "heads": read_through,
    "recompute": recompute,
    "chains": fuse_chains,
    "prepack": prepack,
}
EXACT = ("constants", "common", "dead", "gates", "norms", "tails", "heads", "recompute", "chains")


def check_names(names: Iterable[str]) -> set[str]:
    """The names as a set, if all of them are passes."""
    wanted = set(names)
    unknown = wanted - set(PASSES)
    if unknown:
        raise ValueError(f"compile: unknown passes; got {sorted(unknown)}; choose from {list(PASSES)}")
    return wanted


def stages(graph: Graph, names: Iterable[str]) -> Iterator[tuple[str, Graph]]:
    """(pass, the graph after it) for the named passes, in the order of `PASSES`."""
    wanted = check_names(names)
    for name, change in PASSES.items():
        if name in wanted:
            graph = change(graph)
            yield name, graph


def optimise(graph: Graph, names: Iterable[str]) -> Graph:
    """The graph after the named passes; what they leave unused is dropped."""
    for _, changed in stages(graph, names):
        graph = changed
    return graph
