"""Module: its tables, walking them, state in and out all or nothing, modes, dtypes, copies."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU())
        self.head = nn.Linear(2, 3)
        self.scale = nn.Parameter([1.5])
        self.register_buffer("seen", np.zeros(2, np.float32), persistent=False)
        self.note = "plain attributes stay plain"

    def forward(self, x: Any) -> Any:
        return self.head(self.body(x).mean((2, 3))) * self.scale


NAMES = ["scale", "body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias", "head.weight", "head.bias"]
STATS = ["body.1.running_mean", "body.1.running_var", "body.1.num_batches_tracked"]


def test_tables_are_filled_by_assignment() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_buffers()] == ["seen", *STATS]
    assert [name for name, _ in net.named_children()] == ["body", "head"]
    assert [name for name, _ in net.named_modules()] == ["", "body", "body.0", "body.1", "body.2", "head"]
    assert set(net.state_dict()) == {*NAMES, *STATS}  # what is not persistent stays out
    assert net.note == "plain attributes stay plain"
    assert net.get_submodule("body.0") is net.body[0]
    assert {"scale", "seen", "body"} <= set(dir(net))


def test_a_name_stands_in_one_table() -> None:
    net = Net()
    del net.scale
    net.scale = nn.Linear(1, 1)
    assert "scale" not in dict(net.named_parameters(recurse=False)) and "scale" in dict(net.named_children())
    net.scale = nn.Parameter([2.0])
    assert "scale" in dict(net.named_parameters(recurse=False)) and "scale" not in dict(net.named_children())
    net.scale = None
    assert net.scale is None and "scale" not in dict(net.named_parameters())
    net.seen = np.ones(2, np.float32)
    assert isinstance(net.seen, ln.Tensor) and "seen" not in net.state_dict()


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda net: setattr(net, "scale", 3.0), "is a Parameter"),
        (lambda net: setattr(net, "head", 3.0), "is a Module"),
        (lambda net: net.register_parameter("x", ln.tensor([1.0])), "a Parameter is needed"),
        (lambda net: net.add_module("x", print), "a Module is needed"),
        (lambda net: net.add_module("a.b", nn.ReLU()), "without a dot"),
        (lambda net: net.get_submodule("body.7"), "'7'"),
        (lambda net: net.no_such_thing, "no_such_thing"),
        (lambda net: nn.Module()(1), "forward"),
        (lambda net: net.to("int64"), "float32 or float64"),
        (lambda net: nn.Parameter(np.zeros(2, np.int64)), "float data"),
        (lambda net: nn.Sequential(nn.ReLU())[1], "from -1 to 0"),
    ],
)
def test_wrong_use_is_told(change: Any, problem: str) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError, IndexError, NotImplementedError), match=problem):
        change(Net())


def test_parameters_before_init_are_refused() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter([1.0])

    with pytest.raises(AttributeError, match="super\\(\\).__init__\\(\\) comes first"):
        Early()


def test_shared_parts_count_once_and_keep_both_names() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    net[2].weight = net[0].weight
    assert [name for name, _ in net.named_parameters()] == ["0.weight", "0.bias", "2.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    twin = copy.deepcopy(net)
    assert twin[2].weight is twin[0].weight and twin[0].weight is not net[0].weight


def test_modes_and_freezing_reach_every_part() -> None:
    net = Net()
    assert all(m.training for m in net.modules())
    assert net.eval() is net and not any(m.training for m in net.modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen: list[str] = []
    net.train().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Conv2d", "BatchNorm2d", "ReLU", "Sequential", "Linear", "Net"]


def test_zero_grad_and_to_keep_the_objects() -> None:
    net = Net()
    before = list(net.parameters())
    net(np.ones((2, 1, 4, 4), np.float32)).sum().backward()
    assert all(p.grad is not None for p in before)
    net.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() for p in before)
    net.double()
    assert [a is b for a, b in zip(before, net.parameters(), strict=True)] == [True] * len(before)
    assert {t.dtype.name for t in (*net.parameters(), *net.buffers())} == {"float64", "int64"}
    assert net(np.ones((2, 1, 4, 4))).dtype == np.float64
    assert net.float().head.weight.dtype == np.float32


def test_state_goes_out_and_in() -> None:
    one, two = Net(), Net()
    one(np.random.default_rng(0).standard_normal((4, 1, 5, 5)).astype(np.float32))
    assert two.load_state_dict({k: v.copy() for k, v in one.state_dict().items()}) == ([], [])
    for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True):
        assert a.tobytes() == b.tobytes() and a is not b
    assert two.state_dict()["body.1.num_batches_tracked"] == 1


@pytest.mark.parametrize(
    "spoil, problem",
    [
        (lambda s: s.pop("head.bias"), "head.bias missing"),
        (lambda s: s.update(extra=np.ones(1)), "extra unknown"),
        (lambda s: s.update({"head.bias": np.ones(4, np.float32)}), "head.bias has shape \\(3,\\); got \\(4,\\)"),
        (lambda s: s.update({"head.bias": np.ones(3)}), "head.bias is float32; got float64"),
        (lambda s: s.update({"head.bias": "text"}), "head.bias"),
    ],
)
def test_a_load_that_fails_changes_nothing(spoil: Any, problem: str) -> None:
    net = Net()
    before = {k: v.copy() for k, v in net.state_dict().items()}
    state = {k: v + 1 for k, v in Net().state_dict().items()}
    spoil(state)
    with pytest.raises((ValueError, TypeError), match=problem):
        net.load_state_dict(state)
    assert all((before[k] == v).all() for k, v in net.state_dict().items())


def test_not_strict_loads_what_fits_and_tells_the_rest() -> None:
    net = Net()
    found = net.load_state_dict({"head.bias": np.full(3, 7, np.float32), "other": np.ones(1)}, strict=False)
    assert found.unexpected_keys == ["other"] and "head.weight" in found.missing_keys
    assert (net.head.bias.numpy() == 7).all()


def test_copies_and_pickles_are_whole() -> None:
    net = Net().eval()
    x = np.random.default_rng(0).standard_normal((2, 1, 5, 5)).astype(np.float32)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert isinstance(twin.scale, nn.Parameter) and twin.scale is not net.scale
        assert twin(x).numpy().tobytes() == net(x).numpy().tobytes()
        twin.scale.data[...] = 0
        assert net.scale.item() == 1.5


def test_representation_nests() -> None:
    assert repr(nn.Sequential(nn.Sequential(nn.ReLU()), nn.Identity())) == (
        "Sequential(\n  (0): Sequential(\n    (0): ReLU()\n  )\n  (1): Identity()\n)"
    )


def test_containers() -> None:
    parts = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()]).append(nn.Linear(2, 1))
    assert len(parts) == 3 and [type(p).__name__ for p in parts] == ["Linear", "ReLU", "Linear"] and parts[-1] is parts[2]
    assert len(parts[1:]) == 2
    named = nn.ModuleDict({"a": nn.ReLU()})
    named["b"] = nn.Tanh()
    assert list(named) == ["a", "b"] and "b" in named and len(named) == 2 and list(named.keys()) == [k for k, _ in named.items()]
    net = nn.Sequential({"first": nn.Linear(2, 2), "second": nn.ReLU()})
    assert list(net.state_dict()) == ["first.weight", "first.bias"] and len(net[:1]) == 1
    assert [type(p).__name__ for p in net.append(nn.Tanh())] == ["Linear", "ReLU", "Tanh"]
