"""The reverse sweep: cotangents carried back over recorded nodes.

Nodes are visited in descending order of birth, through a heap, so that every node has received all its
cotangents when its turn comes, and the order of additions is the same on every run. The sweep is a loop: a chain of a million nodes needs no deep stack. A node that no cotangent reaches is never
looked at.

The sweep knows no operator; `add`, which sums cotangents, is handed in by `install`.

The way forth needs no sweep, as tangents travel with the values; `set_out` is its first step.
"""

from heapq import heappop, heappush

from libc.stdint cimport uint64_t

from lean_nn_c._spent cimport is_spent
from lean_nn_c.engine cimport Box, Node, Primitive, Trace, new_box, watching

import numpy as np

from lean_nn_c.engine import NONDIFF, GraphError, carry, step_for

cdef object ndarray = np.ndarray
cdef tuple FLOATS = (np.dtype("float32"), np.dtype("float64"))

cdef enum:
    WORTH = 65536   # bytes of an array from which on it is worth while to look who else may see it

cdef Primitive add = None
cdef object zeros = None


def install(Primitive addition, object zeros_of):
    """Hand in the primitive that accumulates cotangents, and the zeros for outputs that none has reached."""
    global add, zeros
    add, zeros = addition, zeros_of


def set_out(Trace trace, tuple primals, tuple tangents):
    """Boxes of their own over the data of `primals`, which move by `tangents`; None where that takes more than looking.

    These are Tensors of floats that no level outside watches and tangents like them: most calls of `jvp`, and half their cost.
    """
    cdef Box box, x, t
    cdef Py_ssize_t i
    cdef list boxes = []
    if trace.level > 1 or len(primals) != len(tangents):
        return None
    for i in range(len(primals)):
        if not isinstance(primals[i], Box) or not isinstance(tangents[i], Box):
            return None
        x, t = primals[i], tangents[i]
        if x.mask or x.tangents or type(x.data) is not ndarray or type(t.data) is not ndarray or x.data.dtype not in FLOATS:
            return None
        if x.data.dtype != t.data.dtype or x.data.shape != t.data.shape:
            return None
        box = new_box(x.data)
        carry(box, trace, t)
        boxes.append(box)
    return boxes


def outputs_of(Node node):
    """The node's results as rules want them: boxes linked to the node, rebuilt from what it saved (else None)."""
    cdef Box shell, box
    cdef Py_ssize_t i
    if node.saved is None:
        return None
    boxes = []
    for i, shell in enumerate(node.saved):
        box = new_box(shell.data)
        box.node, box.index, box.tangents = node, i, shell.tangents
        box.mask = node.mask if node.prim.differentiable_out[i] else 0
        boxes.append(box)
    return boxes[0] if len(boxes) == 1 else tuple(boxes)


cdef class Joint:
    """A rule for all arguments at once, where they share work.

    Reverse, ``rule(wanted, g, y, *args, **params)`` gives a tuple, a cotangent for each argument that `wanted` names.
    Forward, ``rule(tangents, y, *args, **params)`` gives the change of the output(s); None in `tangents` is an argument at rest.
    """

    cdef readonly object rule

    def __init__(self, rule):
        self.rule = rule


cdef class Gate:
    """A rule for the one argument of an elementwise function, in both modes: gate(t, y), or gate(t, x).

    It reads t once, element by element, and says so: a sweep writes the result over a cotangent that nobody else will read.
    """
    cdef readonly Primitive prim
    cdef readonly bint by_output

    def __init__(self, prim, *, by_output=False):
        self.prim, self.by_output = prim, by_output

    def __call__(self, t, y, x, **params):
        return self.prim(t, y if self.by_output else x, **params)


cdef object written_over(Primitive prim, Box first, Box second, dict params):
    """prim(first, second, **params) in the place of `first`; None where somebody may look at that again, or at the operation."""
    if not is_spent(first) or first.tangents or second.tangents or watching(first.mask | second.mask):
        return None
    if first.data.nbytes < WORTH or type(second.data) is not ndarray or not second.data.flags.c_contiguous:
        return None
    if first.data.dtype != second.data.dtype or first.data.shape != second.data.shape:
        return None
    kernel = step_for(prim, [first.data, second.data], params) if params or prim.lane is None else prim.lane
    if kernel is None:
        return None
    kernel(first.data, second.data, first.data)
    return new_box(first.data)


cdef object added(Box first, Box g):
    """What has arrived, and g."""
    found = written_over(add, first, g, {})
    return add(first, g) if found is None else found


cdef object passed(Gate rule, Box g, Node node, Box y):
    """What the gate lets through of a cotangent that the sweep holds."""
    found = written_over(rule.prim, g, y if rule.by_output else <Box>node.inputs[0], node.params)
    return cotangent_for(node, 0, rule, g, y) if found is None else found


cdef object rule_of(Primitive prim, Py_ssize_t argnum):
    """(callable, takes the argument's number): a tuple has a rule per argument, a callable serves them all."""
    rules = prim.vjp
    if rules is not None and not isinstance(rules, tuple):
        return rules
    if rules is None or argnum >= len(<tuple>rules) or (<tuple>rules)[argnum] is None:
        raise GraphError(f"{prim.name}: no reverse rule for argument {argnum}; got a cotangent for it; "
                         f"give the primitive a vjp or detach the argument")
    return (<tuple>rules)[argnum]


cdef object cotangent_for(Node node, Py_ssize_t argnum, object rule, object g, object y):
    if type(node.prim.vjp) is tuple:
        arguments = (g, y) + node.inputs
    else:
        arguments = (argnum, g, y) + node.inputs
    return checked(node, argnum, rule(*arguments, **node.params) if node.params else rule(*arguments))


cdef object checked(Node node, Py_ssize_t argnum, object result):
    """A rule's result, refused unless it is like the argument."""
    if not isinstance(result, Box) or (<Box>result).data.shape != (<Box>node.inputs[argnum]).data.shape:
        got = (<Box>result).data.shape if isinstance(result, Box) else type(result).__name__
        raise GraphError(f"{node.prim.name}: the reverse rule of argument {argnum} returns that argument's shape "
                         f"{(<Box>node.inputs[argnum]).data.shape}; got {got}; mend the rule")
    return result


cdef object gathered(Node node, object arrived):
    """The cotangents of all outputs: zeros where none arrived, None where there can be none."""
    if node.prim.outputs == 1:
        return arrived
    return tuple([
        None if not node.prim.differentiable_out[i] else
        zeros(node.avals[i][0], node.avals[i][1], node.inputs[0]) if g is None else g
        for i, g in enumerate(arrived)
    ])


cdef class Sweep:
    """One reverse sweep over the nodes of level `bit`; a fresh object each, so sweeps may run side by side."""
    cdef uint64_t bit
    cdef bint keep
    cdef object wanted, needed  # sets of id(leaf) and of node ids, or None: all
    cdef list heap
    cdef dict nodes, arrived, leaves, inner

    def __cinit__(self, uint64_t bit, bint keep, wanted, needed, dict inner):
        self.bit, self.keep, self.wanted, self.needed, self.inner = bit, keep, wanted, needed, inner
        self.heap, self.nodes, self.arrived, self.leaves = [], {}, {}, {}

    cdef bint interior(self, Box box) noexcept:
        return box.node is not None and box.node.mask & self.bit != 0

    cdef bint wants(self, Box box) except -1:
        if self.interior(box):
            return box.mask & self.bit != 0 and (self.needed is None or box.node.id in self.needed)
        if self.wanted is None:
            return box.mask & self.bit != 0
        return id(box) in self.wanted

    cdef object deliver(self, Box box, object g):
        """Add `g` to what has arrived for `box`."""
        cdef Node node = box.node
        if not self.interior(box):
            key = id(box)
            entry = self.leaves.get(key)
            self.leaves[key] = (box, g if entry is None else add((<tuple>entry)[1], g))
            return
        if node.id not in self.nodes:
            self.nodes[node.id] = node
            heappush(self.heap, -node.id)
            self.arrived[node.id] = g if node.prim.outputs == 1 else [None] * node.prim.outputs
            if node.prim.outputs == 1:
                return
        if node.prim.outputs == 1:
            self.arrived[node.id] = added(self.arrived.pop(node.id), g)
        else:
            slot = <list>self.arrived[node.id]
            slot[box.index] = g if slot[box.index] is None else add(slot[box.index], g)

    cdef object visit(self, Node node):
        if node.inputs is None:
            raise GraphError(f"backward: the values saved by node {node.id} ({node.prim.name}) were freed by an earlier "
                             f"backward; got a second one; pass retain_graph=True to the first")
        g = gathered(node, self.arrived.pop(node.id))
        if node.id in self.inner:
            self.inner[node.id] = g
        y = outputs_of(node)
        if type(node.prim.vjp) is Joint:
            self.visit_jointly(node, g, y)
        else:
            self.visit_each(node, g, y)
        if not self.keep and node.mask == self.bit:  # nobody else may come back to it
            node.inputs = node.saved = None

    cdef object visit_jointly(self, Node node, object g, object y):
        cdef Py_ssize_t argnum
        wanted = tuple([self.wants(<Box>box) for box in node.inputs])
        if True not in wanted:
            return
        found = (<Joint>node.prim.vjp).rule(wanted, g, y, *node.inputs, **node.params)
        for argnum in range(len(node.inputs)):
            if wanted[argnum]:
                self.deliver(<Box>node.inputs[argnum], checked(node, argnum, found[argnum]))

    cdef object visit_each(self, Node node, object g, object y):
        cdef Py_ssize_t argnum
        cdef Box box
        for argnum in range(len(node.inputs)):
            box = <Box>node.inputs[argnum]
            if self.wants(box):
                rule = rule_of(node.prim, argnum)
                if type(rule) is Gate:
                    self.deliver(box, passed(<Gate>rule, <Box>g, node, <Box>y))
                elif rule is not NONDIFF:
                    self.deliver(box, cotangent_for(node, argnum, rule, g, y))

    cdef object run(self):
        while self.heap:
            self.visit(<Node>self.nodes.pop(-<object>heappop(self.heap)))


def pull(list roots, uint64_t bit, *, bint keep, wanted=None, needed=None, dict inner=None):
    """Carry cotangents back from `roots` (pairs of box and cotangent) over the nodes of level `bit`.

    Parameters
    ----------
    keep : keep what nodes saved, for a further sweep
    wanted : set of id() of the leaves to deliver to; None: every leaf that the level watches
    needed : set of ids of the nodes to pass through; None: all
    inner : {node id: None}, filled with the cotangents that arrived at these nodes

    Returns
    -------
    dict from id(leaf) to (leaf, cotangent)
    """
    cdef Sweep sweep = Sweep(bit, keep, wanted, needed, {} if inner is None else inner)
    for box, g in roots:
        sweep.deliver(box, g)
    sweep.run()
    return sweep.leaves
