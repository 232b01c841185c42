"""Where primitives are computed; the type of the data chooses.

=========  =====================================  ====================
module     arrays                                 slot of the record
=========  =====================================  ====================
``cpu``    float32, float64 (and their indices)   ``step``, ``cpu``
``spec``   object arrays of any scalar            ``spec``
=========  =====================================  ====================

The ``cpu_*`` modules hold the small adapters between a record's parameters and its kernel's arguments.
"""

from lean_nn.backend import cpu, spec
from lean_nn.primitive import register_backend

register_backend(cpu.Cpu())
register_backend(spec.Spec())
