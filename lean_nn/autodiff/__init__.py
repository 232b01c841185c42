"""Derivatives over the recorded graph, blind to operators: the only one they name is add, to accumulate.

============  ======================================================================
``forward``   tangents carried along as operations run
``tape``      `Tape`: record once, push tangents forward, pull cotangents back
============  ======================================================================

The reverse sweep itself is `lean_nn_c.sweep.pull`; `lean_nn_c.engine` tells how levels work.
"""
