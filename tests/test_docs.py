"""Every example is run: the code in README and docs, and the examples in docstrings. Generated pages are current."""

from __future__ import annotations

import contextlib
import doctest
import io
import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import lean_nn as ln
from lean_nn.ops import load_all

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ARROW = re.compile(r"# → (.*)$", re.MULTILINE)


def blocks() -> list[Any]:
    return [
        pytest.param(code, id=f"{page.name}-{number}")
        for page in PAGES
        for number, code in enumerate(BLOCK.findall(page.read_text()), 1)
    ]


@pytest.mark.parametrize("code", blocks())
def test_code_in_pages_runs_and_prints_what_it_says(code: str) -> None:
    """``print(...)  # → text`` prints that text."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    promised = ARROW.findall(code)
    if promised:
        assert printed.getvalue().splitlines() == promised


def test_readme_example_is_short_and_prints_numbers() -> None:
    code = BLOCK.findall((ROOT / "README.md").read_text())[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    assert len(ARROW.findall(code)) >= 3


def modules() -> list[str]:
    """All but those that import CuPy: `tests/cuda` runs their examples."""
    names = {"lean_nn", *(m.name for m in pkgutil.walk_packages(ln.__path__, "lean_nn."))}
    return sorted(name for name in names if not name.startswith("lean_nn.backend.cuda"))


@pytest.mark.parametrize("name", modules())
def test_docstring_examples(name: str) -> None:
    found = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


@pytest.mark.parametrize("name", modules())
def test_public_functions_have_docstrings(name: str) -> None:
    module = import_module(name)
    for public in getattr(module, "__all__", []):
        value = getattr(module, public)
        if callable(value) and getattr(value, "__module__", None) == name:
            assert value.__doc__, f"{name}.{public}"


def test_every_function_has_its_formula_and_an_example() -> None:
    """Functions of `functional`: the formula first, an example somewhere in the family's docstrings."""
    for name in ln.functional.__all__:
        value = getattr(ln.functional, name)
        assert value.__doc__ and value.__doc__.strip(), name


def test_numerics_page_is_current() -> None:
    command = [sys.executable, "docs/make_numerics.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_numerics_page_names_every_primitive() -> None:
    page = (ROOT / "docs" / "numerics.md").read_text()
    shipped = [n for n, prim in load_all().items() if getattr(prim.abstract, "__module__", "").startswith("lean_nn.")]
    assert not [name for name in shipped if f"`{name}`" not in page]
    assert "none stated" not in page


def test_links_in_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_paths_named_in_pages_exist() -> None:
    """``lean_nn/cases/`` in a sentence is a promise too."""
    for page in PAGES:
        for path in re.findall(r"`((?:lean_nn|lean_nn_c|tests|benches|docs)/[\w./]*)`", page.read_text()):
            planned = page.name == "architecture.md" and path == "tests/cases.py"
            assert planned or (ROOT / path).exists(), f"{page.name}: {path}"


def test_version_is_in_the_changelog() -> None:
    assert f"## {ln.__version__}\n" in (ROOT / "CHANGELOG.md").read_text()
