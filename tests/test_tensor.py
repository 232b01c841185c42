"""Tensor: what it is, how it converts, how its operators and errors behave."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

import lean_nn as ln


def test_dtypes_are_kept() -> None:
    assert ln.tensor([1.0, 2.0]).dtype == np.float32
    assert ln.tensor(np.array([1.0])).dtype == np.float64
    assert ln.tensor([1, 2]).dtype == np.int64
    assert ln.tensor([True]).dtype == np.bool_
    assert ln.tensor([Fraction(1, 3)]).dtype == object
    assert ln.tensor(np.float64(1.5)).dtype == np.float64
    x = ln.tensor([1.0], dtype="float32")
    for y in (x + 1, 1 - x, x * 2.5, x / 3, 2**x, x**2, -x, abs(x), x.mean(), x.exp()):
        assert y.dtype == np.float32


def test_tensor_copies_and_from_numpy_shares() -> None:
    a = np.array([1.0, 2.0])
    copied, shared = ln.tensor(a), ln.from_numpy(a)
    a[0] = 7.0
    assert copied.tolist() == [1.0, 2.0]
    assert shared.tolist() == [7.0, 2.0]


def test_strided_and_unaligned_data_become_contiguous() -> None:
    a = np.arange(12.0).reshape(3, 4)
    x = ln.from_numpy(a.T)
    assert x.data.flags.c_contiguous
    assert np.array_equal(x.data, a.T)
    raw = np.zeros(8 * 3 + 1, np.uint8)[1:].view(np.float64)
    raw[:] = [1.0, 2.0, 3.0]
    assert ln.from_numpy(raw).data.flags.aligned
    assert (ln.from_numpy(raw) * 2).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (np.zeros(2, np.float16), "tensor: data of float32, float64, object, int64, bool is needed; got float16; "
                                  "convert to float32 or float64"),
        (np.zeros(2, np.int32), "tensor: data of float32, float64, object, int64, bool is needed; got int32; "
                                "convert to int64 (indices) or float32"),
        (np.zeros(2, np.complex64), "tensor: data of float32, float64, object, int64, bool is needed; got complex64; "
                                    "convert to float32, float64 or object"),
        (np.array(["a"]), "tensor: data of float32, float64, object, int64, bool is needed; got <U1; "
                          "convert to float32, float64 or object"),
    ],
)
def test_other_dtypes_say_what_to_convert_to(data: np.ndarray, words: str) -> None:
    with pytest.raises(TypeError) as error:
        ln.tensor(data)
    assert str(error.value) == words


def test_mixed_dtypes_are_an_error() -> None:
    with pytest.raises(TypeError, match=r"^add: arguments of one dtype are needed; got float32, float64; convert one with"):
        ln.tensor([1.0]) + ln.tensor(np.array([1.0]))
    with pytest.raises(TypeError, match=r"^mul: float32, float64 or object data is needed; got int64; convert with"):
        ln.tensor([1]) * ln.tensor([2])


def test_numpy_leaves_mixed_expressions_to_us() -> None:
    x = ln.tensor(np.array([1.0, 2.0]), requires_grad=True)
    y = np.array([3.0, 4.0]) * x
    assert isinstance(y, ln.Tensor)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_array_protocols() -> None:
    x = ln.tensor([[1.0, 2.0]])
    assert np.asarray(x) is x.data
    assert np.array(x, copy=True) is not x.data
    assert np.asarray(x, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="a cast needs a copy"):
        x.__array__(np.float64, copy=False)
    assert np.from_dlpack(x).tolist() == [[1.0, 2.0]]
    back = ln.from_dlpack(np.arange(3.0))
    assert back.tolist() == [0.0, 1.0, 2.0]
    assert float(ln.tensor(2.5)) == 2.5
    assert int(ln.tensor([3])) == 3
    assert [10, 20, 30][ln.tensor(1)] == 20
    assert bool(ln.tensor([0.0])) is False
    assert len(x) == 1
    assert [row.tolist() for row in ln.tensor([[1.0], [2.0]])] == [[1.0], [2.0]]


def test_pickle_and_deepcopy_keep_data_and_requires_grad() -> None:
    x = ln.tensor([1.0, 2.0], requires_grad=True)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.requires_grad and y.is_leaf
        assert y.data is not x.data
        assert y.tolist() == x.tolist()
    computed = pickle.loads(pickle.dumps(x * 2))
    assert computed.is_leaf


def test_repr() -> None:
    x = ln.tensor([1.0, 2.5], requires_grad=True)
    assert repr(x) == "tensor([1. , 2.5], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 5.], node=mul)"
    assert repr(ln.tensor(np.array([1.0]))) == "tensor([1.], dtype=float64)"
    assert repr(ln.tensor([Fraction(1, 2)])) == "tensor([Fraction(1, 2)], dtype=object)"


def test_hash_is_identity_and_eq_is_elementwise() -> None:
    x, y = ln.tensor([1.0, 2.0]), ln.tensor([1.0, 3.0])
    assert (x == y).tolist() == [True, False]
    assert (x != y).tolist() == [False, True]
    assert (x < y).tolist() == [False, True]
    assert {x: 1, y: 2}[y] == 2


def test_errors_of_the_box() -> None:
    x = ln.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    with pytest.raises(ln.GraphError, match="^requires_grad: only leaves can be switched"):
        y.requires_grad = False
    with pytest.raises(TypeError, match="^requires_grad: float data is needed; got int64"):
        ln.tensor([1], requires_grad=True)
    with pytest.raises(ValueError, match="^item: one element is needed; got shape \\(2,\\)"):
        x.item()
    with pytest.raises(ValueError, match="^bool: one element is needed"):
        bool(x)
    with pytest.raises(TypeError, match="^len: a Tensor with at least one axis"):
        len(ln.tensor(1.0))
    with pytest.raises(TypeError, match="^tensor: elements are not assigned in place"):
        x[0] = 1.0
    with pytest.raises(ValueError, match="^backward: a scalar is needed; got shape \\(2,\\)"):
        y.backward()
    with pytest.raises(ln.GraphError, match="^backward: nothing was recorded"):
        ln.tensor(1.0).backward()
    with pytest.raises(ValueError, match="^backward: a tangent or cotangent has its Tensor's shape \\(2,\\); got \\(3,\\)"):
        y.backward(np.ones(3, np.float32))
    with pytest.raises(TypeError, match="^backward: a tangent or cotangent has its Tensor's dtype float32; got float64"):
        y.backward(np.ones(2))
    with pytest.raises(TypeError, match="^add: Tensors, arrays or numbers are needed; got NoneType"):
        x + None


def test_backward_accumulates_and_frees() -> None:
    x = ln.tensor([3.0], requires_grad=True)
    (x * x).backward()
    (x * x).backward()
    assert x.grad.tolist() == [12.0]
    y = x * x
    y.backward()
    with pytest.raises(ln.GraphError, match=r"^backward: the values saved by node \d+ \(square\) were freed by an earlier"):
        y.backward()
    z = x * x
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [30.0]


def test_create_graph_gives_second_derivatives() -> None:
    x = ln.tensor(np.array(2.0), requires_grad=True)
    (x * x * x).backward(create_graph=True)
    first, x.grad = x.grad, None
    assert first.item() == 12.0
    first.backward()
    assert x.grad.item() == 12.0
    x.grad = None


def test_no_grad_and_detach() -> None:
    x = ln.tensor([2.0], requires_grad=True)
    with ln.no_grad():
        y = x * x
    assert not y.requires_grad and y.node is None
    z = x.detach() * x
    z.backward()
    assert x.grad.tolist() == [2.0]
    assert x.detach().data is x.data


@pytest.mark.parametrize(
    "key",
    [
        0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(4, 0, -2), slice(5, 2), None, Ellipsis,
        (0, 1), (slice(None), 1), (Ellipsis, 0), (0, Ellipsis, slice(None, None, 2)), (None, 0, None),
        [0, 2], ([0, 1], [1, 2]), (slice(None), [2, 0, 0]), ([1, 0], slice(None), [3, 1]), (0, [1, 2]),
        np.array([[0, 1], [2, -1]]), (Ellipsis, [1, -1]), np.arange(3) > 0, (slice(None), np.arange(4) > 1), [],
        (slice(None), None, [0, 1]), (None, [0], slice(None), 1),
    ],
    ids=str,
)
def test_indexing_is_numpys(key: object) -> None:
    a = np.arange(60.0).reshape(3, 4, 5)
    expected = a[key]
    x = ln.tensor(a, requires_grad=True)
    y = x[key]
    assert np.array_equal(y.numpy(), expected)
    g = np.arange(1.0, expected.size + 1).reshape(expected.shape)
    y.backward(g)
    back = np.zeros_like(a)
    np.add.at(back, key, g)
    assert np.array_equal(x.grad.numpy(), back)


@pytest.mark.parametrize(
    ("key", "kind", "words"),
    [
        (3, IndexError, "index: from -3 to 2 on axis 0; got 3; use an index inside the Tensor"),
        ((0, 0, 0), IndexError, "index: at most one key per axis and one ellipsis; got 3 keys for shape (3, 4); remove some"),
        ([0, 7], IndexError, "index: from -3 to 2 on axis 0; got 7; use an index inside the Tensor"),
        ([-9], IndexError, "index: from -3 to 2 on axis 0; got -9; use an index inside the Tensor"),
        (1.5, TypeError, "index: ints, slices, None, ..., integer or boolean arrays; got float64; convert the index"),
        (True, TypeError, "index: a lone bool is no index; got one; use a mask of the Tensor's shape"),
        (np.ones(4, bool), IndexError,
         "index: a mask has the shape of the axes it stands for; got (4,) for (3, 4); compare along those axes"),
        (([0, 1], [0, 1, 2]), IndexError, "index: index arrays broadcast together; got shapes [(2,), (3,)]; reshape one of them"),
    ],
    ids=str,
)
def test_indexing_errors(key: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as error:
        ln.tensor(np.zeros((3, 4)))[key]
    assert str(error.value) == words


class _Elsewhere:
    def __dlpack__(self) -> object:
        raise AssertionError("must not be asked")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (10, 0)


def test_from_dlpack_of_another_device() -> None:
    with pytest.raises(ValueError, match="^from_dlpack: memory of the CPU or of a CUDA device is needed; got DLPack"):
        ln.from_dlpack(_Elsewhere())
    with pytest.raises(TypeError, match="^from_dlpack: an object with __dlpack__ is needed; got list"):
        ln.from_dlpack([1.0])


def test_sizes_beyond_memory_are_refused_before_allocation() -> None:
    with pytest.raises(ValueError, match="^broadcast_to: the output fits into memory's address range; got shape"):
        ln.functional.broadcast_to(ln.tensor([1.0]), (2**40, 2**40))
    with pytest.raises(ValueError, match="^pad: the output fits into memory's address range; got shape"):  # though it is empty
        ln.functional.pad(ln.tensor(np.zeros((0, 2))), (2**64, 0))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda F, x: F.reshape(x, "ab"), TypeError, "reshape: sizes are ints; got str; pass a tuple of ints"),
        (lambda F, x: F.reshape(x, (3,)), ValueError,
         "reshape: the number of elements stays; got (2, 2) to (3,); choose a shape of 4 elements"),
        (lambda F, x: F.concat(3), TypeError, "concat: a sequence of Tensors is needed; got int; pass a list"),
        (lambda F, x: F.concat([]), ValueError, "concat: at least one array is needed; got none; pass a sequence of Tensors"),
        (lambda F, x: F.concat([x, x[0]]), ValueError,
         "concat: shapes agree off axis 0; got (2, 2) and (2,); reshape or pad one"),
        (lambda F, x: F.stack([x, x[0]]), ValueError, "stack: Tensors of one shape; got [(2,), (2, 2)]; reshape or pad them"),
        (lambda F, x: F.split(x, [1, 2]), ValueError, "split: sizes add up to the axis; got [1, 2] for 2; make the sum 2"),
        (lambda F, x: F.split(x, 0), ValueError, "split: pieces of at least one cell; got 0; pass a positive size"),
        (lambda F, x: F.pad(x, (1,)), ValueError,
         "pad: pairs (before, after) from the last axis; got (1,) for shape (2, 2); give at most 2 pairs"),
        (lambda F, x: F.pad(x, (1, -1)), ValueError,
         "pad: one pair of sizes, none negative, per axis; got ((0, 0), (1, -1)) for shape (2, 2); use a slice to cut"),
        (lambda F, x: F.pad(x, (1, 1), mode="reflect"), ValueError,
         "pad: mode 'constant' is supported; got 'reflect'; build others with concat and flip"),
        (lambda F, x: F.flip(x, 2), ValueError, "flip: axis from -2 to 1; got 2; use an axis of the Tensor"),
        (lambda F, x: F.flip(x, 0.5), TypeError, "flip: an axis is an int; got float; pass an int"),
        (lambda F, x: F.flip(x, (0, 0)), ValueError,
         "flip: different axes of the array; got (0, 0) for shape (2, 2); name each axis once"),
        (lambda F, x: F.transpose(x, (0, 0)), ValueError,
         "transpose: axes are a permutation of the array's; got (0, 0) for shape (2, 2); name each axis once"),
        (lambda F, x: F.broadcast_to(x, (3, 2)), ValueError,
         "broadcast_to: axes of size 1 stretch and others match; got (2, 2) to (3, 2); reshape it first"),
        (lambda F, x: F.flatten(x, 1, 0), ValueError, "flatten: start_dim comes first; got 1 and 0; exchange them"),
        (lambda F, x: F.cast(x, "nonsense"), TypeError,
         "cast: the name of a dtype is needed; got 'nonsense'; pass 'float32' or 'float64'"),
        (lambda F, x: F.cast(x, "float16"), TypeError,
         "cast: between float32 and float64 only; got float32 to float16; convert the data with NumPy first"),
        (lambda F, x: F.gather(x, 0, np.zeros((1, 3), np.int64)), ValueError,
         "gather: data and indices agree off axis 0; got (2, 2) and (1, 3); broadcast the indices first"),
        (lambda F, x: F.gather(x, 0, x), TypeError, "gather: indices are int64; got float32; convert with .astype('int64')"),
        (lambda F, x: F.scatter_add(x, 0, np.zeros((1, 2), np.int64), x), ValueError,
         "scatter_add: one index per element; got (2, 2) and (1, 2); broadcast the indices first"),
        (lambda F, x: ln.tensor([[1.0], [1.0, 2.0]]), ValueError,
         "tensor: nested sequences of equal lengths; got ragged ones; pad them to one length"),
        (lambda F, x: ln.tensor(None), TypeError, "tensor: Tensors, arrays or numbers are needed; got NoneType; pass a Tensor"),
    ],
)
def test_shape_errors(call: object, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as error:
        call(ln.functional, ln.tensor([[1.0, 2.0], [3.0, 4.0]]))  # type: ignore[operator]
    assert str(error.value) == words
