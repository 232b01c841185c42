"""Compiled graphs: typed, checked as they are built, with all memory planned before they run.

==============  =============================================================================================
``ir``          `Graph`: values, nodes; `Rewrite`, how a pass makes a new one
``symbol``      data without numbers: the backend that records nodes instead of computing
``trace``       a Python function, run once on Symbols
``builder``     `GraphBuilder`: the same by hand, node by node
``passes``      functions from graph to graph
``plan``        a place in memory for every value
``execute``     frames and steps: running a plan
``program``     `Program`: call, derivatives, memory, listing
``compiler``    `compile`: the front door
``family``      `Family`: programs of one function for different sizes
``sizes``       sizes that are left open, and numbers that follow from them
``general``     one description for all sizes, from tracing at several
``watched``     sizes that write down what they are compared with
``listing``     printing, Graphviz
``profile``     time per node, as a table and a picture
``files``       save and load
``coding``      parameters and forms as JSON
==============  =============================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lean_nn.lazy import opener

if TYPE_CHECKING:
    from lean_nn.graph.builder import GraphBuilder
    from lean_nn.graph.compiler import compile
    from lean_nn.graph.family import Family
    from lean_nn.graph.files import load_program
    from lean_nn.graph.profile import Profile
    from lean_nn.graph.program import Memory, Program

__all__ = ["Family", "GraphBuilder", "Memory", "Profile", "Program", "compile", "load_program"]

# A saved program runs without what made it: tracing and building are imported when they are asked for.
__getattr__ = opener(__name__, {
    "Family": "family", "GraphBuilder": "builder", "Memory": "program", "Profile": "profile", "Program": "program",
    "compile": "compiler", "load_program": "files",
})  # fmt: skip
