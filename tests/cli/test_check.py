"""``lean-nn check`` and ``lean-nn info``: what they print, what they return, how they fail."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
import lean_nn_c
from lean_nn import accuracy, check, cli
from lean_nn.cases import all_cases
from lean_nn.primitive import Exact, Gamma, Primitive, Ulps, get, registry


@pytest.fixture(scope="module")
def full() -> dict[str, Any]:
    """The whole check, in a process of its own: other tests register primitives in this one."""
    command = [sys.executable, "-m", "lean_nn.cli", "check", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == 0
    return report


def test_check_finds_no_difference(full: dict[str, Any]) -> None:
    assert full["ok"]
    assert [problem for finding in full["operators"] for problem in finding["problems"]] == []


def test_check_covers_every_operator_in_both_types(full: dict[str, Any]) -> None:
    assert {finding["operator"] for finding in full["operators"]} >= {"add", "conv", "max_pool", "matmul", "sum"}
    for finding in full["operators"]:
        assert finding["cases"] >= 1, finding["operator"]
        assert set(finding["worst_error_in_bounds"]) == {"float32", "float64"}, finding["operator"]


def test_bounds_are_not_idle(full: dict[str, Any]) -> None:
    """Somewhere the kernels round: a check that always finds 0 would check nothing."""
    assert max(value for finding in full["operators"] for value in finding["worst_error_in_bounds"].values()) > 0.1


def test_check_prints_a_line_per_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--filter", "^(max_pool|add|conv)$"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in out[1:-1]] == ["add", "conv", "max_pool"]
    assert all(line.endswith(" ok") for line in out[1:-1])
    assert out[-1].startswith("3 operators, all within their bounds")


def test_check_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--json", "--filter", "^exp$", "--threads", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] and report["operators"][0]["operator"] == "exp"
    assert 0 <= report["operators"][0]["worst_error_in_bounds"]["float64"] <= 1


def _broken(name: str, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    prim = get(name)
    fields = ("abstract", "spec", "jvp", "vjp", "linear", "differentiable_out", "saves_output", "accuracy")
    values = {field: getattr(prim, field) for field in fields}
    monkeypatch.setitem(registry, name, Primitive(name, **{**values, **changes}))


def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(x: Any, *, out: Any) -> None:
        out[...] = np.exp(x) * (1 + 1e-5)

    _broken("exp", monkeypatch, cpu=wrong)
    assert cli.main(["check", "--filter", "^exp$"]) == 1
    printed = capsys.readouterr()
    assert "DIFFERS" in printed.out and "1 operators, 1 NOT" in printed.out
    assert "times the stated bound" in printed.err


def test_a_kernel_that_raises_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails(*args: Any, **params: Any) -> None:
        raise RuntimeError("broken")

    _broken("relu", monkeypatch, cpu=fails)
    assert cli.main(["check", "--filter", "^(neg|relu)$"]) == 1
    printed = capsys.readouterr()
    assert "RuntimeError: broken" in printed.err
    assert [line.split()[-1] for line in printed.out.splitlines()[1:-1]] == ["ok", "DIFFERS"]


def test_one_wrong_bit_of_an_exact_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(get("neg").accuracy, Exact)

    def wrong(x: Any, *, out: Any) -> None:
        out[...] = -x
        out.reshape(-1)[-1:] = np.nextafter(out.reshape(-1)[-1:], np.inf)

    _broken("neg", monkeypatch, cpu=wrong)
    (finding,) = check.check("^neg$")
    assert not finding.ok and math.inf in finding.worst.values()
    assert "inf" in finding.as_json()["worst_error_in_bounds"].values()


def test_measure_in_units_of_the_bound() -> None:
    """A kernel that is off by three roundings is 0.75 of a bound of four."""
    x = np.array([1.0, 2.0])

    def cpu(x: Any, *, out: Any) -> None:
        out[:] = x + 3 * np.spacing(x)

    record = Primitive("off", abstract=lambda x: x, spec=lambda x: x, cpu=cpu, accuracy=Ulps(4))
    assert accuracy.measure(record, (x,), {}) == 0.75
    gamma = Primitive("off", abstract=lambda x: x, spec=lambda x: x, cpu=cpu, accuracy=Gamma(lambda x: 12))
    assert accuracy.measure(gamma, (x,), {}) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("arguments", "code"), [([], 2), (["nothing"], 2), (["check", "--filter", "("], 2), (["--help"], 0),
                            (["check", "--help"], 0), (["info", "--help"], 0)]
)  # fmt: skip
def test_usage(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == code
    assert "lean-nn" in "".join(capsys.readouterr())


def test_no_match_and_bad_threads(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--filter", "no such operator"]) == 1
    assert "no operator matches" in capsys.readouterr().err
    assert cli.main(["check", "--threads", "0"]) == 2
    assert "1 to 4096 threads; got 0" in capsys.readouterr().err


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info"]) == 0
    text = capsys.readouterr().out
    for word in (ln.__version__, lean_nn_c.ISA, "OpenMP", "threads", np.__version__, "compiler"):
        assert word in text
    ln.show_config()
    assert capsys.readouterr().out == text


def test_info_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["version"] == ln.__version__
    isa = found["isa"]
    assert isa["chosen"] in isa["runnable"] and set(isa["runnable"]) <= set(isa["built"])


def test_installed_command_runs() -> None:
    done = subprocess.run([sys.executable, "-m", "lean_nn.cli", "info"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("lean_nn:")
    assert done.stderr == ""


def test_cases_name_registered_primitives() -> None:
    assert not {case.primitive for case in all_cases()} - set(registry)
