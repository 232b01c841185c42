"""`lean_nn.data`: the digits, splits, loaders that resume to the bit, augmentation, folders."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lean_nn import data
from lean_nn.data.augment import Compose, Flip, Noise, Shift

X = np.arange(11 * 12, dtype=np.float32).reshape(11, 1, 3, 4)
Y = np.arange(11)


def test_digits_are_scikit_learns() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    x, y = data.load_digits()
    np.testing.assert_array_equal(x[:, 0], (datasets.load_digits().images / 16).astype(np.float32), strict=True)
    np.testing.assert_array_equal(y, datasets.load_digits().target)
    assert (Path(data.__file__).parent / "digits.npz").stat().st_size < 60_000
    assert "CC BY 4.0" in (Path(data.__file__).parent / "DIGITS.txt").read_text()


def test_split_keeps_every_sample_once() -> None:
    (x, y), (x_test, y_test) = data.split(X, Y, test=0.3, seed=5)
    assert len(x) == 8 and len(x_test) == 3
    assert sorted([*y, *y_test]) == list(range(11))
    assert all((row == X[label]).all() for row, label in zip([*x, *x_test], [*y, *y_test], strict=True))
    assert not np.array_equal(data.split(X, Y, 0.3, seed=6)[0][1], y)
    np.testing.assert_array_equal(data.split(X, Y, 0.3, seed=5)[0][1], y)


def collect(loader: data.Loader) -> list[tuple[bytes, list[int]]]:
    return [(x.tobytes(), y.tolist()) for x, y in loader]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
def test_an_epoch_has_every_sample_once(prefetch: int) -> None:
    loader = data.Loader(X, Y, 4, seed=1, prefetch=prefetch)
    first, second = collect(loader), collect(loader)
    for epoch in (first, second):
        assert [len(labels) for _, labels in epoch] == [4, 4, 3]
        assert sorted(label for _, labels in epoch for label in labels) == list(range(11))
    assert first != second and loader.epoch == 2
    assert len(data.Loader(X, Y, 4, drop_last=True)) == 2


@pytest.mark.parametrize("stop", range(8))
def test_resumes_anywhere_to_the_bit(stop: int) -> None:
    def make(prefetch: int) -> data.Loader:
        return data.Loader(X, Y, 4, seed=3, transform=Compose(Shift(1), Noise(0.5)), prefetch=prefetch)

    whole, once, again = make(0), make(2), make(3)
    expected = [batch for _ in range(3) for batch in collect(whole)]
    seen: list[Any] = []
    while len(seen) < stop:
        for x, y in once:
            seen.append((x.tobytes(), y.tolist()))
            if len(seen) == stop:
                break
    again.load_state_dict(once.state_dict())
    while len(seen) < len(expected):
        seen += collect(again)
    assert seen == expected


def test_threads_end() -> None:
    before = threading.active_count()
    loader = data.Loader(X, Y, 1, prefetch=2)
    for _ in loader:
        break
    list(loader)
    assert threading.active_count() == before


def test_a_transform_that_fails_is_heard() -> None:
    def fails(x: Any, rng: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="^no$"):
        list(data.Loader(X, Y, 4, transform=fails))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: data.Loader(X, Y[:3]), "x and y are arrays with a row per sample; got shapes"),
        (lambda: data.Loader(X, Y, 0), "at least one sample; got 0"),
        (lambda: data.Loader(X, Y, 1, prefetch=-1), "prefetch is a number of batches"),
        (lambda: data.Loader(X, Y, 12, drop_last=True), "at least one batch; got 11 samples"),
        (lambda: data.split(X, Y, 1.5), "a share between 0 and 1; got 1.5"),
        (lambda: data.split(X[:1], Y[:1]), "both parts have samples"),
        (lambda: data.Loader(X, Y, 4).load_state_dict({"epoch": 1}), "a state has"),
        (lambda: data.Loader(X, Y, 4, seed=1).load_state_dict(data.Loader(X, Y, 4).state_dict()), "saved with {'seed': 0}"),
        (lambda: data.Loader(X, Y, 4).load_state_dict({**data.Loader(X, Y, 4).state_dict(), "batch": 3}), "a place is"),
        (lambda: Shift(-1), "Shift: pixels"), (lambda: Flip(p=2), "Flip: p is"), (lambda: Noise(-1), "Noise: std"),
        (lambda: Shift(1)(Y, np.random.default_rng(0)), "Shift: x has samples, channels"),
        (lambda: Flip(1)(X, np.random.default_rng(0)), "Flip: axis is a spatial one"),
    ],
)  # fmt: skip
def test_errors(call: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()


# --- augmentation ---


def test_shift_against_the_definition() -> None:
    x = np.random.default_rng(0).standard_normal((30, 2, 4, 5)).astype(np.float32)
    y = Shift(2)(x, np.random.default_rng(7))
    moves = np.random.default_rng(7).integers(-2, 3, (30, 2))
    for n, (down, right) in enumerate(moves):
        for i in range(4):
            for j in range(5):
                inside = 0 <= i - down < 4 and 0 <= j - right < 5
                np.testing.assert_array_equal(y[n, :, i, j], x[n, :, i - down, j - right] if inside else 0)
    assert set(map(tuple, moves)) != {(0, 0)} and y.dtype == x.dtype


def test_flip_and_noise() -> None:
    x = np.random.default_rng(0).standard_normal((200, 1, 2, 3)).astype(np.float32)
    y = Flip(-2, p=0.25)(x, np.random.default_rng(1))
    turned = np.array([np.array_equal(b, a[:, ::-1]) for a, b in zip(x, y, strict=True)])
    kept = np.array([np.array_equal(b, a) for a, b in zip(x, y, strict=True)])
    assert (turned ^ kept).all() and 30 < turned.sum() < 70
    noisy = Noise(0.5)(x, np.random.default_rng(2)) - x
    assert noisy.dtype == np.float32 and abs(noisy.std() - 0.5) < 0.05 and abs(noisy.mean()) < 0.05
    with pytest.raises(TypeError, match="float32 or float64; got int64"):
        Noise(1)(Y, np.random.default_rng(0))


# --- folders ---


def test_from_folder(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (3, 4, 5), np.uint8)
    for name, folder in (("b.png", "cat"), ("a.pgm", "cat"), ("c.png", "dog")):
        (tmp_path / folder).mkdir(exist_ok=True)
        image.fromarray(pixels["abc".index(name[0])]).save(tmp_path / folder / name)
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    x, y, names = data.from_folder(tmp_path)
    np.testing.assert_array_equal(x, pixels[:, None].astype(np.float32) / np.float32(255), strict=True)
    assert y.tolist() == [0, 0, 1] and names == ["cat", "dog"]
    assert data.from_folder(tmp_path, size=(8, 6))[0].shape == (3, 1, 8, 6)
    image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8)).save(tmp_path / "dog" / "colour.png")
    with pytest.raises(ValueError, match=r"samples have one shape, here \(1, 4, 5\); got \(3, 4, 5\) in .*colour.png"):
        data.from_folder(tmp_path)


def test_from_folder_of_arrays(tmp_path: Path) -> None:
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "x.npy", np.full((2, 2), int(name)))
    x, y, names = data.from_folder(tmp_path)
    assert x[:, 0, 0, 0].tolist() == [0, 1] and x.dtype == np.float32 and y.tolist() == [0, 1] and names == ["0", "1"]
    np.save(tmp_path / "1" / "x.npy", np.array([None]), allow_pickle=True)
    with pytest.raises(ValueError, match="never unpickled"):
        data.from_folder(tmp_path)
    with pytest.raises(ValueError, match="a folder per class"):
        data.from_folder(tmp_path / "0")


def test_broken_pictures(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\nnot really")
    with pytest.raises(ValueError, match="x.png' is no picture that can be used"):
        data.read_picture(tmp_path / "x.png")
