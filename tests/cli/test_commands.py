"""``lean-nn train``, ``predict``, ``summary``, ``bench``: what they print, what they return, how they fail."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lean_nn as ln
from lean_nn import cli, data

TOML = """
[[layer]]
type = "Flatten"
[[layer]]
type = "Linear"
in_features = 6
out_features = 2
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network trained for one epoch, saved."""
    path = tmp_path_factory.mktemp("model") / "digits.safetensors"
    arguments = ["train", "digits", "--epochs", "1", "--threads", "1", "--quiet", "-o", str(path), "--json"]
    assert cli.main(arguments) == 0
    return path


def test_train_writes_a_program(digits: Path) -> None:
    x, y = data.load_digits()
    program = ln.load_program(digits)
    right = sum(int(program(x[i : i + 1]).argmax()) == y[i] for i in range(200))
    assert right > 150


def test_train_is_repeatable_and_tells_its_history(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again.safetensors"
    assert cli.main(["train", "--epochs", "1", "--threads", "1", "--quiet", "-o", str(again), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert again.read_bytes() == digits.read_bytes()
    assert report["samples"] == 1797 and report["bytes"] == again.stat().st_size
    assert report["history"]["val_accuracy"] == [report["test_accuracy"]]


@pytest.mark.parametrize("form", ["pair", "npz", "folder"])
def test_train_on_other_data(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    x = (rng.standard_normal((40, 2, 3)) + 8 * (y - 0.5)[:, None, None]).astype(np.float32)
    if form == "pair":
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", y)
        given = [str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    elif form == "npz":
        np.savez(tmp_path / "d.npz", x=x, y=y)
        given = [str(tmp_path / "d.npz")]
    else:
        for i, (sample, label) in enumerate(zip(x, y, strict=True)):
            folder = tmp_path / "data" / ("cat", "dog")[label]
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"{i}.npy", sample)
        given = [str(tmp_path / "data")]
    (tmp_path / "net.toml").write_text(TOML)
    model, out = str(tmp_path / "net.toml") if sys.version_info >= (3, 11) else "mlp", tmp_path / "m.safetensors"
    checkpoint = str(tmp_path / "run.npz")
    common = ["train", *given, "--model", model, "--batch", "8", "--quiet", "-o", str(out), "--checkpoint", checkpoint]
    assert cli.main([*common, "--epochs", "30"]) == 0
    assert "100.00 % right on 8 samples" in capsys.readouterr().out
    assert cli.main([*common, "--epochs", "30"]) == 0  # all epochs are done: the checkpoint is all there is to it
    assert "100.00 %" in capsys.readouterr().out
    np.save(tmp_path / "dog.npy", x[1])
    assert cli.main(["predict", str(out), str(tmp_path / "dog.npy")]) == 0
    assert capsys.readouterr().out.split("\t")[1].startswith("dog" if form == "folder" else "1")


def test_predict_files_batches_and_options(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, _ = data.load_digits()
    program = ln.load_program(digits)
    one, expected = program(x[:1]), program(x[:3])
    np.testing.assert_allclose(one, expected[:1], rtol=1e-5, atol=1e-6)
    for name, array in {"one": x[0, 0], "row": x[:1], "three": x[:3].astype(np.float64)}.items():
        np.save(tmp_path / f"{name}.npy", array)
    out = tmp_path / "y.npy"
    files = [str(tmp_path / f"{name}.npy") for name in ("one", "row", "three")]
    assert cli.main(["predict", str(digits), *files, "--output", str(out)]) == 0
    lines = capsys.readouterr().out.splitlines()
    places = [f"{files[0]}[0]", f"{files[1]}[0]", *(f"{files[2]}[{i}]" for i in range(3))]
    assert [line.split("\t")[0] for line in lines] == places
    np.testing.assert_array_equal(np.load(out), np.concatenate([one, one, expected]))
    assert cli.main(["predict", str(digits), files[2], "--top", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["predictions"]
    shares = np.exp(expected.astype(float)) / np.exp(expected.astype(float)).sum(1, keepdims=True)
    for row, share in zip(found, shares, strict=True):
        assert [c["class"] for c in row["classes"]] == np.argsort(-share)[:3].tolist()
        assert row["classes"][0]["share"] == pytest.approx(share.max(), rel=1e-6)


def test_predict_reads_pictures_and_standard_input(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")
    x, _ = data.load_digits()
    pixels = (x[7, 0] * 255).astype(np.uint8)
    image.fromarray(pixels).save(tmp_path / "seven.png")
    assert cli.main(["predict", str(digits), str(tmp_path / "seven.png")]) == 0
    from_picture = capsys.readouterr().out.split("\t")[1]
    buffer = io.BytesIO()
    np.save(buffer, pixels.astype(np.float32) / np.float32(255))

    class Input:
        def __init__(self, data: bytes) -> None:
            self.buffer = io.BytesIO(data)

    monkeypatch.setattr(sys, "stdin", Input(buffer.getvalue()))
    assert cli.main(["predict", str(digits)]) == 0
    assert capsys.readouterr().out == f"-[0]\t{from_picture}"
    monkeypatch.setattr(sys, "stdin", Input(b""))
    assert cli.main(["predict", str(digits)]) == 2


def test_predict_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    w = np.array([[1.0], [2.0]], np.float32)
    ln.compile(lambda x: x @ w, (1, 2)).save(tmp_path / "m.safetensors")
    np.save(tmp_path / "x.npy", np.array([[1, 2], [3, 4]]))
    assert cli.main(["predict", str(tmp_path / "m.safetensors"), str(tmp_path / "x.npy")]) == 0
    assert [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()] == ["5", "11"]


def test_predict_says_what_is_wrong(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((9, 9)))
    (tmp_path / "no.safetensors").write_bytes(b"nothing")
    ln.compile(lambda x: x, (2, 3)).save(tmp_path / "two.safetensors")
    for model, source, text in (
        (digits, "x.npy", "a sample has shape (1, 8, 8); got an array of (9, 9)"),
        (digits, "gone.npy", "No such file"),
        (tmp_path / "gone", "x.npy", "No such file"),
        (tmp_path / "no.safetensors", "x.npy", "no program that can be used"),
        (tmp_path / "two.safetensors", "x.npy", "whose first size is open or 1; got inputs [(2, 3)]"),
    ):
        assert cli.main(["predict", str(model), str(tmp_path / source)]) == 1
        printed = capsys.readouterr()
        assert text in printed.err and printed.err.startswith("lean-nn predict: ") and printed.out == ""


def test_summary(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["summary", "lenet"]) == 0
    assert "454,922 parameters" in capsys.readouterr().out
    assert cli.main(["summary", "resnet20", "--shape", "1,16,16", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]
    assert cli.main(["summary", str(digits)]) == 0
    assert "constant" in capsys.readouterr().out
    assert cli.main(["summary", str(digits), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["inputs"] == [{"shape": [1, 1, 8, 8], "dtype": "float32"}]


def test_bench(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "mlp", "--batch", "2", "--seconds", "0", "--threads", "1"]) == 0
    assert "mlp on 2 × 64: best" in capsys.readouterr().out
    assert cli.main(["bench", str(digits), "--seconds", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["best_ms"] <= found["median_ms"] and found["shape"] == [1, 1, 8, 8]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["train", "a", "b", "c"], "DATA is digits"), (["train", "--model", "nothing"], "a model is one of"),
        (["train", "--threads", "0"], "1 to 4096 threads; got 0"), (["summary", "lenet", "--shape", "1,8,9"], "square pictures"),
        (["bench", "digits_cnn", "--shape", "64"], "takes pictures"),
    ],
)  # fmt: skip
def test_wrong_commands(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["summary"], ["predict"], ["train", "--epochs", "0"], ["bench", "--shape", "x"]])
def test_usage_of_options(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2
    assert f"lean-nn {arguments[0]}" in capsys.readouterr().err


def test_every_command_helps(capsys: pytest.CaptureFixture[str]) -> None:
    for command, text in cli.COMMANDS.items():
        with pytest.raises(SystemExit) as stopped:
            cli.main([command, "--help"])
        out = capsys.readouterr().out
        assert stopped.value.code == 0
        assert f"usage: lean-nn {command}" in out and text[1:] in out and len(out.splitlines()) > 8
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"{ln.__version__}\n"


def test_predict_imports_little(digits: Path, tmp_path: Path) -> None:
    """What a small machine does not need: layers, training, tracing, the tape, archives, the specification."""
    np.save(tmp_path / "x.npy", np.zeros((1, 8, 8)))
    program = (
        "import sys; from lean_nn.cli import main; "
        f"main(['predict', {str(digits)!r}, {str(tmp_path / 'x.npy')!r}]); print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"lean_nn.nn", "lean_nn.tensor", "lean_nn.functional", "lean_nn.transforms", "lean_nn.training", "lean_nn.optim",
             "lean_nn.spec.names", "lean_nn.graph.builder", "zipfile", "numpy.typing", "numpy.random", "dataclasses"}  # fmt: skip
    before = subprocess.run([sys.executable, "-c", "import sys, numpy; print(*sys.modules)"], capture_output=True, text=True,
                            check=True)  # fmt: skip
    assert not heavy & (set(done.stderr.split()) - set(before.stdout.split()))


def test_demo(tmp_path: Path) -> None:
    """As a user starts it, with fewer epochs."""
    command = [sys.executable, "-m", "lean_nn.cli", "demo", "--epochs", "4", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "% right on 359 digits" in done.stdout and "relative difference" in done.stdout and "Next:" in done.stdout
    assert done.stderr.count("epoch") == 4
    shown = [line for line in done.stdout.splitlines() if "@@" in line]
    assert len(shown) >= 6
    assert (tmp_path / "lean_nn_demo.safetensors").stat().st_size < 140_000
    if "lean_nn_demo.png" in done.stdout:
        assert (tmp_path / "lean_nn_demo.png").read_bytes()[:4] == b"\x89PNG"


def test_demo_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.main(["demo", "--epochs", "1", "--folder", str(tmp_path), "--json", "--no-picture"])
    printed = capsys.readouterr()
    found: dict[str, Any] = json.loads(printed.out)
    assert (code == 0) == (found["test_accuracy"] >= 0.985) and found["picture"] is None
    assert ("below 0.985" in printed.err) == (code == 1)
    assert found["forward"] == pytest.approx(found["reverse"], rel=1e-10)


def test_the_installed_command_flushes_and_returns_codes(digits: Path) -> None:
    """It leaves by ``os._exit``: nothing that was printed may be lost, whoever reads it."""
    command = [sys.executable, "-m", "lean_nn.cli"]
    done = subprocess.run([*command, "summary", str(digits)], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.splitlines()[-1].strip() and done.stderr == ""
    for arguments, code in ((["predict", "gone"], 1), (["nothing"], 2), (["--help"], 0), (["train", "--epochs", "x"], 2)):
        assert subprocess.run([*command, *arguments], capture_output=True, check=False).returncode == code
    reader = subprocess.Popen([*command, "summary", "resnet20"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None and reader.stderr is not None
    reader.stdout.close()
    assert b"Traceback" not in reader.stderr.read()
    reader.stderr.close()
    assert reader.wait() == 141
