"""The spine, compiled: a value, a recorded application, and the way every operation takes. `sweep` is the way back.

**A value** is a `Box` around an array. **A node** is one application of a primitive: the primitive, the boxes
it was applied to, its static parameters. A box remembers the node it came from, so the boxes of a computation
and their nodes are a graph with edges to the past only, numbered in the order of their birth. There is one
graph; what differs between `backward`, a `Tape` and a transform is *who is interested*:

* Every interested party is a **level**. Level 0 is the ambient one (`requires_grad`, `backward`); each open
  `Tape` or transform takes the next number, so an inner level has a higher number than an outer one.
* `box.mask` has bit L set when the value depends on something level L watches. An operation is recorded when
  the union of its arguments' masks meets a level that is **live**; otherwise it leaves no trace at all.
* Live are the levels that are open, up to a `limit`. A rule of derivation that serves level L is itself a
  program of primitives; it runs with `limit = L`, so that the outer levels see it (that is how derivatives of
  derivatives come about) and level L and those inside it do not (that is why they cost nothing).

A bit left over from a closed level is harmless: it is not live, so nothing is recorded for it, and the
reverse sweep delivers cotangents by the *identity* of boxes, never by bits.

**bind** applies a primitive: evaluate, box, record, then let forward mode add tangents. Nothing is recorded
before the value exists, and a failure in forward mode takes the record back: a failed operation leaves the
tape as it was.

Where one `jvp` alone asks for tangents and no level outside it would see how they come about, a **dual** kernel, which gives
the same bits as value and rule in one pass over memory, may take their place. Everywhere else (nested derivatives, traced
functions, other devices) the rule runs.

Boxes and nodes point to the past only, so reference counts free them the moment nobody needs them, and they
are kept out of Python's cycle collector: walking a hundred thousand live nodes again and again would make a
long graph cost more than its length. The two ways to close a cycle are dealt with where they arise: a tangent
computed from its own value (`lean_nn.autodiff.forward` unhooks it when the trace ends), and a `leaf.grad`
that was itself recorded (`create_graph=True`; set ``leaf.grad = None`` when done, as in PyTorch).
"""

import weakref
from operator import attrgetter
from threading import local

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport int64_t, uint64_t

from lean_nn_c._keys cimport array_like, key_of, kind_of, number_array
from lean_nn_c._levels cimport lnn_all, lnn_depth, lnn_limit, lnn_live, lnn_recording, lnn_variant, refresh

from lean_nn_c.memory import empty

cnp.import_array()

cdef extern from "Python.h":
    bint PyObject_GC_IsTracked(object)
    void PyObject_GC_UnTrack(object)

cdef enum:
    MAX_LEVEL = 62
    REMEMBERED = 256    # plans of one primitive; each takes a few kilobytes
    SMALL_INT = 1 << 30 # ints up to here are numbers like any; larger ones ask `to_boxes`

cdef uint64_t CONSTANT_BIT = <uint64_t>1 << 63


class GraphError(RuntimeError):
    """The recorded graph cannot do what was asked: freed, foreign, or missing a rule."""


cdef class _NonDifferentiable:
    """Stands in a rule's place where an argument has no derivative: an index, a condition, a seed."""

    def __repr__(self):
        return "NONDIFF"

    def __reduce__(self):
        return "NONDIFF"


NONDIFF = _NonDifferentiable()
CONSTANT = CONSTANT_BIT  # in a mask: a number or array that only this operation has seen, so nobody can ask about it

cdef tuple EMPTY = ()
cdef int64_t next_id = 0
cdef object opened = local()  # .tapes: the node lists of this thread's recording levels, by level

cdef type tensor_type = None
cdef object to_boxes = None
cdef object evaluate = None
cdef object plan = None
cdef object plan_dual = None
cdef object propagate = None
cdef object opener = None


def open_with(object f):
    """Name the function that imports what calls `install`: it is called when the first box is made."""
    global opener
    opener = f


def install(type tensor, object boxes, object evaluator, object planner, object dual_planner, object forward):
    """Hand in what the layers above define: the box type, conversion, evaluation, plans of it and of duals, forward mode."""
    global tensor_type, to_boxes, evaluate, plan, plan_dual, propagate
    tensor_type, to_boxes, evaluate, plan, plan_dual, propagate = tensor, boxes, evaluator, planner, dual_planner, forward


cdef class Primitive:
    """One record per primitive; `lean_nn.primitive` documents the fields."""

    def __init__(self, str name, *, abstract, spec=None, cpu=None, cuda=None, jvp=None, vjp=None, tuple linear=(),
                 tuple differentiable_out=(True,), bint saves_output=False, accuracy=None, lane=None, view=None,
                 tuple pointwise=None, step=None, dual=None, bint checks_values=False):
        self.name = name
        self.abstract, self.spec, self.cpu, self.cuda = abstract, spec, cpu, cuda
        self.jvp, self.vjp, self.linear = jvp, vjp, linear
        self.differentiable_out, self.outputs = differentiable_out, len(differentiable_out)
        self.saves_output, self.accuracy, self.lane, self.view = saves_output, accuracy, lane, view
        self.pointwise, self.step, self.checks_values = pointwise, step, checks_values
        self.dual, self.plans, self.duals = dual, {}, {}

    def __call__(self, *args, **params):
        return bind(self, args, params)

    def __repr__(self):
        return f"<primitive {self.name}>"


@cython.no_gc
cdef class Node:
    """One recorded application of a primitive."""

    def __repr__(self):
        return f"<node {self.id} {self.prim.name}>"


@cython.no_gc
cdef class Box:
    """An array, where it came from, and who is interested in it. `Tensor` adds the manners."""


cdef class Trace:
    """One open `jvp`: a level whose values carry tangents (`lean_nn.autodiff.forward` opens and closes it)."""

    def __cinit__(self):
        self.moving = []


def carry(Box box, Trace trace, Box tangent):
    """Let `box` have this tangent as long as the trace is open."""
    if box.tangents is None:
        box.tangents = {}
    box.tangents[trace] = tangent
    trace.moving.append(weakref.ref(box))


cdef Box new_box(object data):
    if tensor_type is None:
        opener()
    cdef Box box = <Box>(<PyTypeObject*>tensor_type).tp_new(tensor_type, <PyObject*>EMPTY, NULL)
    if PyObject_GC_IsTracked(box):      # as what is derived in Python is, though there is nothing in it to follow
        PyObject_GC_UnTrack(box)
    box.data = data
    return box


def wrap(data, uint64_t mask=0):
    """A fresh box around `data`, watched by the levels in `mask`."""
    cdef Box box = new_box(data)
    box.mask = mask
    return box


def watch(Box box, uint64_t mask):
    """Set which levels watch this box: a leaf is where their sweeps end."""
    box.mask = mask


def rebind(Box box, data):
    """Give a leaf other data: what assignment means while a function is traced."""
    box.data = data


# ---------------------------------------------------------------------------------------------- levels


def open_level(list nodes=None):
    """Open the next level and return its number; with `nodes`, every operation is recorded there."""
    global lnn_depth, lnn_all
    if lnn_depth >= MAX_LEVEL:
        raise GraphError(f"tape: at most {MAX_LEVEL} nested levels; got one more; reduce the nesting")
    lnn_depth += 1
    if nodes is not None:
        lnn_all |= <uint64_t>1 << lnn_depth
        if not hasattr(opened, "tapes"):
            opened.tapes = {}
        opened.tapes[lnn_depth] = nodes
    refresh()
    return lnn_depth


def close_level(int level):
    """Close the innermost level, which must be `level`."""
    global lnn_depth, lnn_all
    if level != lnn_depth:
        raise GraphError(f"tape: levels close innermost first, on the thread that opened them; got level {level} "
                         f"while {lnn_depth} is innermost; use `with`")
    if lnn_all >> level & 1:
        lnn_all ^= <uint64_t>1 << level
        del opened.tapes[level]
    lnn_depth -= 1
    refresh()


def set_limit(int limit):
    """Make only the levels below `limit` live; returns the limit before."""
    global lnn_limit
    before = lnn_limit
    lnn_limit = limit
    refresh()
    return before


def get_limit():
    return lnn_limit


def set_recording(bint on):
    """Switch recording on or off for this thread; returns the setting before."""
    global lnn_recording
    before = bool(lnn_recording)
    lnn_recording = on
    refresh()
    return before


def is_recording():
    return bool(lnn_recording)


cdef uint64_t watching(uint64_t mask) noexcept:
    """The live levels that an operation on values with this mask is recorded for."""
    return (mask | lnn_all) & lnn_live


def live_levels():
    """The levels an operation is recorded for at this moment, as a mask."""
    return lnn_live


def set_variant(int variant):
    """Ask this thread's kernels to go another way than their own choice (0); returns the setting before."""
    global lnn_variant
    before = lnn_variant
    lnn_variant = variant
    return before


def get_variant():
    return lnn_variant


# ---------------------------------------------------------------------------------------------- plans
#
# What an application allocates and runs follows from the shapes and types of its arrays and from its parameters. So it is
# worked out (checked, above all) the first time, and remembered: `plan` gives (output shapes and types, what to call).


cdef list data_of(args):
    cdef Box box
    return [box.data for box in args]


cdef object remember(dict plans, tuple key, known):
    if len(plans) >= REMEMBERED:
        plans.pop(next(iter(plans)), None)
    plans[key] = known


cdef object plan_of(Primitive prim, list arrays, dict params):
    """(output shapes and types, what to call), worked out or remembered; None where there is none to be had."""
    key = key_of(arrays, params, lnn_variant)
    if key is None:
        return None
    known = prim.plans.get(key)
    if known is None:
        known = plan(prim, tuple(arrays), params)
        remember(prim.plans, key, known)
    return known


def step_for(Primitive prim, list arrays, dict params):
    """The kernel of `prim` for arrays like these, which `prim.abstract` has checked; None where there is none on this data."""
    if tensor_type is None:
        opener()
    known = plan_of(prim, arrays, params)
    return None if known is None or known[0] is None else known[1]


cdef object planned(Primitive prim, tuple args, dict params):
    """The value by a remembered plan; None where there is none to be had."""
    cdef list arrays = data_of(args)
    outs, step = plan_of(prim, arrays, params) or (None, None)
    if step is None:
        return None
    if outs is None:
        return step(*arrays, **params)
    results = [empty(*one) for one in outs]
    step(*arrays, *results)
    return results[0] if prim.outputs == 1 else tuple(results)


# ------------------------------------------------------------------------------------------------ bind


cdef object apply(Primitive prim, tuple args, dict params):
    """The value: one array, or a tuple of them."""
    if prim.lane is not None and not params and 1 <= len(args) <= 2:
        first, last = (<Box>args[0]).data, (<Box>args[len(args) - 1]).data
        out = array_like(first, last)
        if out is not None:
            prim.lane(first, out) if len(args) == 1 else prim.lane(first, last, out)
            return out
    if prim.step is not None or prim.view is not None:
        out = planned(prim, args, params)
        if out is not None:
            return out
    return evaluate(prim, tuple(data_of(args)), params)


cdef list traces_of(tuple args):
    """The live traces under which some argument moves, outermost first."""
    cdef Box box
    cdef Trace trace
    cdef list found = []
    for box in args:
        for trace in box.tangents or ():
            if trace.live and trace.level < lnn_limit and trace not in found:
                found.append(trace)
    if len(found) > 1:
        found.sort(key=attrgetter("level"))
    return found


cdef tuple dual_of(Primitive prim, tuple args, dict params, Trace trace, uint64_t mask):
    """(outputs, their tangents) by a dual kernel, as lists of arrays; None where there is none, or somebody outside looks on."""
    cdef Box box, tangent
    cdef list boxes, arrays, moved = []
    cdef uint64_t moves = 0, place = 1
    cdef bint twins = len(args) == 2 and args[0] is args[1]
    if prim.dual is None and prim.pointwise is None and not prim.linear:
        return None
    boxes = list(args)
    for box in args:
        tangent = None if box.tangents is None else box.tangents.get(trace)
        if tangent is not None:
            boxes.append(tangent)
            moves |= place
            mask |= tangent.mask
            if tangent.tangents:
                moved.append(tangent)
        place <<= 1
    if watching(mask) & ((<uint64_t>1 << trace.level) - 1):
        return None
    for outer in traces_of(tuple(moved)):
        if outer.level < trace.level:
            return None
    arrays = data_of(boxes)
    key = key_of(arrays, params, lnn_variant)
    if key is None:
        return None
    key = (moves, twins, *key)
    known = prim.duals.get(key, EMPTY)
    if known is EMPTY:
        known = plan_dual(prim, tuple(arrays), [moves >> i & 1 for i in range(len(args))], twins, params)
        remember(prim.duals, key, known)
    if known is None:
        return None
    outs, dots = [[None if one is None else empty(*one) for one in avals] for avals in known[:2]]
    known[2](*arrays, *outs, *[dot for dot in dots if dot is not None])
    return outs, dots


cdef Node record(Primitive prim, tuple args, dict params, tuple outs, uint64_t mask):
    """A node for this application, the boxes of its results linked to it."""
    global next_id
    cdef Node node = Node.__new__(Node)
    cdef Box out, shell
    cdef Py_ssize_t i
    next_id += 1
    if PyObject_GC_IsTracked(args):  # a tuple of boxes only: the collector would let go of it itself, later
        PyObject_GC_UnTrack(args)
    node.id, node.prim, node.inputs, node.params, node.mask = next_id, prim, args, params, mask
    if prim.outputs > 1 or lnn_all:
        node.avals = tuple([((<Box>box).data.shape, (<Box>box).data.dtype) for box in outs])
    if prim.saves_output:
        shells = []
        for out in outs:  # without a link to the node, so that no cycle keeps the arrays alive
            shell = new_box(out.data)
            shell.tangents = out.tangents
            shells.append(shell)
        node.saved = tuple(shells)
        if PyObject_GC_IsTracked(node.saved):  # like the arguments
            PyObject_GC_UnTrack(node.saved)
    for i in range(prim.outputs):
        out = <Box>outs[i]
        out.node, out.index = node, i
        if prim.differentiable_out[i]:
            out.mask = mask
    return node


cdef object enlist(Node node):
    """Enter the node in the lists of the levels that record everything: lists are in order of birth."""
    for level, nodes in opened.tapes.items():
        if (node.mask >> <int>level) & 1:
            nodes.append(node)


cdef object strike(Node node):
    """Take the node, and what its forward rule recorded after it, back from the lists."""
    cdef list nodes
    for nodes in opened.tapes.values():
        while nodes and (<Node>nodes[len(nodes) - 1]).id >= node.id:
            nodes.pop()


cdef object numbers_boxed(tuple args):
    """The commonest of what `to_boxes` does: floats and ints beside Tensors of floats, whose type they take; else None."""
    cdef Box box
    cdef int kind = -1, own
    for item in args:
        if type(item) is tensor_type:
            own = kind_of((<Box>item).data)
            if own < 0:
                return None
            if kind < 0 and (own == cnp.NPY_FLOAT or own == cnp.NPY_DOUBLE):
                kind = own
        elif type(item) is not float and (type(item) is not int or not -SMALL_INT <= item <= SMALL_INT):
            return None
    if kind < 0:
        return None
    boxes = []
    for item in args:
        if type(item) is not tensor_type:
            box = new_box(number_array(item, kind))
            box.mask = CONSTANT_BIT
            item = box
        boxes.append(item)
    return tuple(boxes)


def bind(Primitive prim, tuple args, dict params):
    """Apply `prim` to `args`: evaluate, box, record, propagate tangents."""
    cdef Box box
    cdef uint64_t mask = 0
    cdef bint moving = False
    cdef list traces = None
    cdef tuple both = None
    cdef Node node = None
    if tensor_type is None:
        opener()
    for item in args:
        if type(item) is not tensor_type:
            args = numbers_boxed(args) or to_boxes(prim, args)
            break
    for box in args:
        mask |= box.mask
        if box.tangents is not None:
            moving = True
    if moving:
        traces = traces_of(args)
        if len(traces) == 1:
            both = dual_of(prim, args, params, traces[0], mask)
    value = apply(prim, args, params) if both is None else both[0]
    if prim.outputs == 1 and both is None:
        outs = (new_box(value),)
    else:
        outs = tuple([new_box(array) for array in value])
    if traces:
        for box in outs:
            box.tangents = {}
    mask = watching(mask)
    if mask and (lnn_all or True in prim.differentiable_out):
        node = record(prim, args, params, outs, mask)
        if lnn_all:
            enlist(node)
    if both is not None:
        for box, dot in zip(outs, both[1]):
            if dot is not None:
                carry(box, traces[0], new_box(dot))
    elif traces:
        try:
            propagate(prim, args, params, outs, traces)
        except BaseException:
            if node is not None and lnn_all:
                strike(node)
            raise
    return outs[0] if prim.outputs == 1 else outs
