"""The checks that every primitive of this package passes, for yours as well.

==============  =====================================================================================
``grads``       `check_grads`: derivatives of a function, numerical, forward and reverse, to any order
``primitives``  `check_primitive`: one record on one call, through everything in `CHECKS`
==============  =====================================================================================

All checks raise AssertionError with the numbers that disagree.
"""

from lean_nn.testing.grads import check_grads
from lean_nn.testing.primitives import CHECKS, check_primitive

__all__ = ["CHECKS", "check_grads", "check_primitive"]
