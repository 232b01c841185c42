"""Tensors on a device: in and out, what they refuse, and that nothing moves unasked."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn.functional as F
from lean_nn import nn
from lean_nn.backend.cpu import Cpu
from lean_nn.cases import all_cases
from lean_nn.ops import load_all

registry = load_all()
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def cuda(array: Any, **options: Any) -> ln.Tensor:
    return ln.tensor(array, device="cuda", **options)


def test_there_and_back() -> None:
    x = ln.tensor(X)
    assert (x.device, x.cuda().device, x.cuda(0).cpu().device) == ("cpu", "cuda:0", "cpu")
    assert np.array_equal(x.cuda().cpu().numpy(), X)
    on = x.cuda()
    assert on.cuda() is on and on.to("cuda:0") is on and x.cpu() is x
    assert ln.from_numpy(X, device="cuda").device == cuda(X).device == "cuda:0"
    assert ln.tensor(on, device="cpu").device == "cpu" and ln.tensor(on).device == "cuda:0"


def test_a_tensor_is_a_copy() -> None:
    on = cuda(X)
    other = ln.tensor(on)
    other.data[...] = 0.0
    assert np.array_equal(on.cpu().numpy(), X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_dtypes_stay(dtype: Any) -> None:
    assert cuda(X.astype(dtype)).dtype == dtype
    assert np.array_equal(cuda(X.astype(dtype)).cpu().numpy(), X.astype(dtype))


def test_library_arrays_are_taken_as_they_are() -> None:
    own = cuda(X).data
    assert (ln.tensor(own).device, F.relu(own).device) == ("cuda:0", "cuda:0")
    turned = ln.from_dlpack(ln.tensor(own)).data.T
    assert np.array_equal(F.neg(turned).cpu().numpy(), -X.T)  # strided: copied, once
    assert F.neg(turned).data.flags.c_contiguous


def test_dlpack_shares() -> None:
    x = cuda(X)
    assert x.__dlpack_device__() == (2, 0)
    y = ln.from_dlpack(x)
    y.data[...] = 7.0
    assert x.cpu().numpy().min() == 7.0
    import cupy

    theirs = cupy.from_dlpack(x)  # to CuPy, and from it
    theirs[...] = 8.0
    assert type(theirs) is cupy.ndarray and x.cpu().numpy().min() == 8.0
    back = ln.from_dlpack(theirs)
    back.data[...] = 9.0
    assert back.device == "cuda:0" and x.cpu().numpy().min() == 9.0


def test_moving_is_differentiated() -> None:
    x = ln.tensor(X, requires_grad=True)
    (x.cuda() * 3.0).sum().backward()
    assert x.grad.device == "cpu" and np.array_equal(x.grad.numpy(), np.full_like(X, 3))
    w = cuda(X, requires_grad=True)
    (w.cpu() * w.cpu()).sum().backward()
    assert w.grad.device == "cuda:0" and np.array_equal(w.grad.cpu().numpy(), 2 * X)
    _, tangent = ln.jvp(lambda t: t.cuda(), (ln.tensor(X),), (ln.tensor(X),))
    assert tangent.device == "cuda:0"


def test_text_pickle_and_numbers() -> None:
    x = cuda([1.0, 2.5])
    assert repr(x) == "tensor([1. , 2.5], device='cuda:0')"
    assert (x.tolist(), x[1].item(), float(x[0]), x.argmax().item(), len(x)) == ([1.0, 2.5], 2.5, 1.0, 1, 2)
    again = pickle.loads(pickle.dumps(x))
    assert again.device == "cuda:0" and again.tolist() == [1.0, 2.5]
    assert cuda(X).argmax(1).cpu().numpy().tolist() == [3, 3, 3]


@pytest.mark.parametrize("key", [1, slice(0, 2), (slice(None), [1, 3]), ([0, 2], [1, 1]), (..., None), X[:, 0] > 2], ids=str)
def test_indexing(key: Any) -> None:
    assert np.array_equal(cuda(X)[key].cpu().numpy(), X[key])


def test_indices_may_lie_on_the_device() -> None:
    assert np.array_equal(cuda(X)[cuda([2, 0])].cpu().numpy(), X[[2, 0]])


def test_numbers_take_the_device() -> None:
    assert all(y.device == "cuda:0" for y in (cuda(X) + 1, 2 - cuda(X), cuda(X) ** 2, cuda(X) > 3.0))


@pytest.mark.parametrize(
    "mixed",
    [
        lambda x: x.cuda() + x, lambda x: x @ x.cuda().T, lambda x: F.concat([x, x.cuda()]), lambda x: x.cuda() + x.numpy(),
        lambda x: F.conv1d(x[None].cuda(), x[None]), lambda x: F.linear(x, x.cuda()),
    ],
)  # fmt: skip
def test_two_devices_are_an_error(mixed: Callable[[ln.Tensor], Any]) -> None:
    words = r"^\w+: arguments on one device are needed; got (cpu, cuda:0|cuda:0, cpu); move one with .cuda\(\) or .cpu\(\)$"
    with pytest.raises(TypeError, match=words):
        mixed(ln.tensor(X))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: cuda(X).numpy(), TypeError, "numpy: memory of the CPU is needed; got a Tensor on cuda:0; copy it with .cpu()"),
        (lambda: np.asarray(cuda(X)), TypeError, "__array__: memory of the CPU is needed; got a Tensor on cuda:0"),
        (lambda: ln.tensor(X, device="gpu"), ValueError, "device: 'cpu', 'cuda' or 'cuda:0' (a number) are known; got 'gpu'"),
        (lambda: ln.tensor(X, device="cuda:x"), ValueError, "device: 'cpu', 'cuda' or 'cuda:0' (a number) are known"),
        (lambda: cuda(X).to("cuda:99"), ValueError, "cuda: devices are 0 to"),
        (lambda: ln.tensor(np.array([1], object)).cuda(), TypeError, "cuda: float32, float64, int64 or bool data is needed"),
        (lambda: ln.compile(lambda x: x.cuda(), (3,)), ln.GraphError, "to: a compiled function computes where its arguments"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(words)


BAD = {
    "pool": lambda x: F.max_pool2d(x[None], 9),
    "conv": lambda x: F.conv1d(x, x[None, :, :2], groups=2),
    "beta": lambda x: F.smooth_max_pool1d(x, 2, 0.0),
    "beta tensor": lambda x: registry["smooth_max_pool"](x[None], x[0, 0], window=F.pool.strided("p", 1, 2)),
    "matmul": lambda x: x @ x,
    "gather": lambda x: registry["gather"](x, (x * 0).data.astype("int64") + 9, axis=1),
    "gather below": lambda x: registry["gather"](x, (x * 0).data.astype("int64") - 1, axis=1),
    "take": lambda x: registry["take"](x, (x[0] * 0).data.astype("int64") + 3, axis=0),
    "scatter": lambda x: registry["scatter_add"](x, (x * 0).data.astype("int64") + 5, axis=1, size=2),
    "unpick": lambda x: registry["unpick"](x, (x * 0).data.astype("int64") + 5, axis=1, size=2, ignore=-100),
    "take_transpose": lambda x: registry["take_transpose"](x[0], (x[0] * 0).data.astype("int64") + 5, axis=0, size=2),
    "gather_at": lambda x: registry["gather_at"](x[None], (x[None] * 0).data.astype("int64") + 77),
    "scatter_add_at": lambda x: registry["scatter_add_at"](x[None], (x[None] * 0).data.astype("int64") - 2, spatial=(4,)),
    "reshape": lambda x: x.reshape(5),
    "float16": lambda x: F.add(x, x.data.astype("float16")),
    "mixed floats": lambda x: F.add(x, x.astype("float64")),
    "batch norm": lambda x: F.batch_norm(x[:1], None, None, training=True),
    "loss": lambda x: F.cross_entropy(x, (x[:, 0] * 0 + 9).data.astype("int64")),
}


@pytest.mark.parametrize("name", BAD)
def test_the_cpu_s_words(name: str) -> None:
    """Errors are raised by the records and by look-ups; both say on the device what they say on the CPU."""
    with pytest.raises(Exception) as wanted:
        BAD[name](ln.tensor(X))
    with pytest.raises(Exception) as got:
        BAD[name](cuda(X))
    assert (type(got.value), str(got.value)) == (type(wanted.value), str(wanted.value))


def test_a_missing_slot_is_named() -> None:
    prim = ln.primitive.Primitive("lonely", abstract=lambda x: x)
    with pytest.raises(ln.GraphError, match="^lonely: no cuda kernel; got data that needs one"):
        prim(cuda(X))


def test_no_slot_runs_the_cpu_s_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing falls back: with the CPU's backend gone, every case still runs on the device."""
    def refuse(*args: Any) -> Any:
        raise AssertionError("the CPU was asked")

    names: set[str] = set()
    for case in all_cases():
        if "large" in case.tags or case.primitive in names or case.primitive == "to_device":
            continue
        names.add(case.primitive)
        boxes = [ln.from_numpy(np.asarray(a), "cuda") for a in case.make(np.random.default_rng(0), np.dtype("float32"))]
        with monkeypatch.context() as patch:
            patch.setattr(Cpu, "run", refuse)
            outs = case.primitive and registry[case.primitive](*boxes, **case.params)
        assert all(y.device == "cuda:0" for y in (outs if isinstance(outs, tuple) else (outs,)))
    assert names >= set(registry) - {"to_device"}


def test_modules_move() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    state = {name: array.copy() for name, array in model.state_dict().items()}
    x = np.random.default_rng(0).standard_normal((3, 1, 4, 4)).astype(np.float32)
    model.eval()
    wanted = model(ln.tensor(x)).numpy()
    got = model.cuda()(cuda(x))
    assert {p.device for p in model.parameters()} == {"cuda:0"}
    assert np.allclose(got.cpu().numpy(), wanted, atol=1e-5)
    model.load_state_dict(state)
    assert {p.device for p in (*model.parameters(), *model.buffers())} == {"cuda:0"}
    assert all(np.array_equal(state[name], array) for name, array in model.cpu().state_dict().items())


def fresh(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_without_cupy_the_error_says_what_to_install() -> None:
    program = "import sys; sys.modules['cupy'] = None; import lean_nn as ln\nfor _ in range(2):\n"
    program += "  try: ln.tensor([1.0]).cuda()\n  except ImportError as e: print(e)"
    lines = fresh(program).stdout.splitlines()
    assert len(lines) == 2 and lines[0] == lines[1]
    assert lines[0].startswith("cuda: CuPy is needed; got an import error (")
    assert lines[0].endswith("install it with pip install 'lean_nn[cuda]', which is cupy-cuda12x")


@pytest.mark.parametrize("count", ["0", "fail()"])
def test_without_a_device_the_error_says_so(count: str) -> None:
    program = (
        "import sys, types\n"
        "cupy = sys.modules['cupy'] = types.ModuleType('cupy')\n"
        "class Broken(RuntimeError): pass\n"
        "def fail(): raise Broken('cudaErrorNoDevice')\n"
        f"runtime = types.SimpleNamespace(CUDARuntimeError=Broken, getDeviceCount=lambda: {count})\n"
        "cupy.cuda = types.SimpleNamespace(runtime=runtime)\n"
        "import lean_nn as ln\n"
        "try: ln.tensor([1.0]).cuda()\n"
        "except RuntimeError as e: print(e)"
    )
    assert fresh(program).stdout.startswith("cuda: a CUDA device is needed; got none")


def test_importing_lean_nn_imports_no_cupy() -> None:
    program = "import sys, lean_nn as ln; ln.tensor([1.0]) + 1; print([m for m in sys.modules if 'cup' in m or 'cuda' in m])"
    assert fresh(program).stdout.strip() == "[]"
