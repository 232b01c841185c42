"""Derivatives over the recorded graph, blind to operators: the only one they name is add, to accumulate.

============  ======================================================================
``forward``   tangents carried along as operations run
``tape``      `Tape`: record once, push tangents forward, pull cotangents back
============  ======================================================================

The reverse sweep itself is `lean_nn_c.engine.pull`; its file tells how levels work.
"""
