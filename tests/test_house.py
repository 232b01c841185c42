"""The house stands: imports point downwards, files are small, compiled modules have stubs, packages are complete."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sorted((ROOT / "lean_nn").rglob("*.py"))
PYX = sorted((ROOT / "lean_nn_c").glob("*.pyx"))

# The floor plan, bottom to top. A module may import modules of lower floors, and of its own floor where both belong
# to one package (ops/conv and ops/pool, say); docs/architecture.md shows the same list.
FLOORS: list[tuple[str, ...]] = [
    ("spec", "_version", "lazy", "tree"),
    ("window", "primitive", "device", "threads", "precision", "config", "atomic"),
    ("convert",),
    ("backend",),
    ("ops",),
    ("functional",),
    ("autodiff",),
    ("tensor",),
    ("transforms",),
    ("graph", "optim", "io"),
    ("nn", "data"),
    ("training", "viz"),
    ("sklearn",),
    ("cases", "accuracy"),
    ("testing", "check"),
    ("cli",),
    ("__init__",),
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in PYTHON}


def room(module: str) -> str:
    """``lean_nn.ops.conv`` is in the room ``ops``; the package itself in ``__init__``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported(path: Path) -> set[str]:
    """Every module of lean_nn that a file imports, at its top, in a function or for type checking."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
                for _ in range(node.level - 1):
                    package = package.rpartition(".")[0]
                base = f"{package}.{base}" if base else package
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                found.add(inner if inner in MODULES else base)
    return {name for name in found if name == "lean_nn" or name.startswith("lean_nn.")}


@pytest.mark.parametrize("path", PYTHON, ids=module_name)
def test_imports_point_downwards(path: Path) -> None:
    here = room(module_name(path))
    assert here in LEVEL, f"{path.name}: give {here} a floor in tests/test_house.py and docs/architecture.md"
    for target in imported(path):
        there = room(target)
        assert there == here or LEVEL[there] < LEVEL[here], f"{module_name(path)} imports {target}: not below it"


@pytest.mark.parametrize("path", PYTHON, ids=module_name)
def test_spec_is_independent(path: Path) -> None:
    """An oracle that borrowed from what it judges would prove nothing."""
    if room(module_name(path)) == "spec":
        assert {room(name) for name in imported(path)} <= {"spec"}
        assert "lean_nn_c" not in path.read_text()


@pytest.mark.parametrize("path", PYX, ids=lambda path: path.stem)
def test_kernels_do_not_know_the_house(path: Path) -> None:
    assert not re.search(r"^\s*(from|import|cimport)\s+lean_nn[\s.]", path.read_text(), re.MULTILINE)


@pytest.mark.parametrize("path", PYX, ids=lambda path: path.stem)
def test_every_pyx_has_a_matching_stub(path: Path) -> None:
    stub = path.with_suffix(".pyi")
    assert stub.exists(), f"{path.name} needs {stub.name}"
    module = import_module(f"lean_nn_c.{path.stem}")
    own = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and str(getattr(value, "__module__", "")).endswith(path.stem)
    }
    promised: set[str] = set()
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            promised.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            promised.add(node.target.id)
    lies = {name for name in promised if not name.startswith("_") and not hasattr(module, name)}
    assert not own - promised - INTERNAL, f"{stub.name} misses {sorted(own - promised - INTERNAL)}"
    assert not lies, f"{stub.name} promises {sorted(lies)}, which {path.name} does not have"


INTERNAL = {"Block", "Sweep"}  # extension types that Cython exports though only their own module uses them

SOURCES = [*PYTHON, *PYX, *sorted((ROOT / "lean_nn_c").glob("*.h")), *sorted((ROOT / "tests").rglob("*.py")),
           *sorted((ROOT / "benches").rglob("*.py")), ROOT / "setup.py"]  # fmt: skip


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_small_and_finished(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= 500, "split the file: nobody reads more than 500 lines"
    unfinished = "TO" + "DO|FIX" + "ME|X" + "XX"
    assert not re.search(rf"\b({unfinished})\b", text)


def test_every_folder_with_modules_is_a_package() -> None:
    """`packages.find` installs packages only: a folder without ``__init__.py`` would be missing from the wheel."""
    folders = {path.parent for path in PYTHON}
    assert all((folder / "__init__.py").exists() for folder in folders)


def test_packages_open_with_their_map() -> None:
    for path in PYTHON:
        if path.name == "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), path


def test_architecture_shows_this_floor_plan() -> None:
    """The numbered list in docs/architecture.md names the floors in this order."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    rows = [row.split("|")[2] for row in text.splitlines() if re.match(r"\| *\d+ *\|", row)]
    assert [tuple(re.findall(r"`(\w+)`", row)) for row in rows] == FLOORS


def test_user_errors_are_not_asserted() -> None:
    """``python -O`` removes asserts, and with them the message."""
    for path in PYTHON:
        if room(module_name(path)) != "testing":
            asserts = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
            assert not asserts, f"{path}:{asserts[0].lineno}" if asserts else ""


def test_every_family_of_primitives_is_found() -> None:
    """A program in a file names primitives; `lean_nn.ops.find` looks for them in these files."""
    from lean_nn.ops import FAMILIES

    assert set(FAMILIES) == {path.stem for path in (ROOT / "lean_nn" / "ops").glob("*.py")} - {"__init__"}
