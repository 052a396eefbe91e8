"""The plan of the package: which part may import which, and how many files a fit passes."""

from __future__ import annotations

import ast
import os
import re
import sys
from pathlib import Path

import pytest

import ksparse
from conftest import make_clusters
from ksparse import KSparse
from ksparse.cli._words import WORDS
from ksparse.params import PARAMETERS

ROOT = Path(ksparse.__file__).parent

# What every part may import, besides itself. Parts are the packages and modules of ksparse.
UTILITIES = {"_compile", "_errors", "_labels", "_names", "_processes", "_threads"}
NUMERICS = {*UTILITIES, "matrix", "core"}
SEARCH = {*NUMERICS, "starts", "search"}
SELECTION = {*SEARCH, "params", "metrics", "_progress", "_tables", "_plotting"}
IO = {*SEARCH, "params", "_progress"}
ESTIMATOR = {
    *SEARCH, "params", "selection", "presets", "prediction", "unsure", "batched", "fitting",
    "io",
}  # fmt: skip
PANEL = {*SELECTION, "selection", "estimator", "fitting"}
SCVERSE = {*ESTIMATOR, *PANEL, "panel", "normalise"}
SHELLS = {*SCVERSE, "scverse"}
ALLOWED = {
    "_compile": set(),
    "_errors": set(),
    "_labels": set(),
    "_names": set(),
    "_processes": set(),
    "_threads": set(),
    "_progress": set(),
    "_tables": set(),
    "_plotting": {"_errors", "io"},
    "metrics": {"_errors"},
    "matrix": UTILITIES,
    "core": {*UTILITIES, "matrix"},
    "starts": NUMERICS,
    "search": {*NUMERICS, "starts"},
    "params": SEARCH,
    "presets": set(),
    "io": IO,
    "selection": SELECTION,
    "unsure": {*SEARCH, "params"},
    "batched": {*SEARCH, "params"},
    "prediction": {*NUMERICS, "params", "unsure", "batched", "io"},
    "fitting": {*SEARCH, "params", "selection", "io"},
    "estimator": ESTIMATOR,
    "loading": {"estimator", "io"},
    "balls": {"core"},
    "normalise": {*UTILITIES, "matrix"},
    "panel": PANEL,
    "scverse": SCVERSE,
    "readers": {*UTILITIES, "io", "matrix"},
    "simulate": {*UTILITIES, "normalise", "params"},
    "datasets": {*UTILITIES, "io", "matrix", "normalise", "_progress"},
    "baselines": {*NUMERICS, "params", "metrics"},
    "tl": SHELLS,
    "pl": SHELLS,
    "report": SHELLS,
    "compare": {*SHELLS, "baselines", "datasets", "readers", "simulate"},
    "cli": {*SHELLS, "tl", "pl", "report", "compare", "readers", "simulate", "datasets"},
    "__main__": {"cli"},
}
# The one package that knows how data are stored; and others that may ask, with the reason.
STORAGE = {
    "matrix": "the only code that knows how data are stored",
    "readers": "files hold sparse or dense matrices, and readers make them",
    "baselines": "other methods have their own ways with sparse data",
}


def modules():
    """Every module: its name in ksparse, and its tree."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        yield name, ast.parse(path.read_text(encoding="utf-8"))


MODULES = dict(modules())


def public_home(name):
    """The module in which a name of `ksparse` itself is defined."""
    if name in ksparse._HOMES:
        return ksparse._HOMES[name]
    return name if name in ksparse._MODULES else ""


def imports(tree):
    """Pairs (module of ksparse, name): everything that is imported, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "ksparse":
                    for name in attributes_of(tree, alias.asname or "ksparse"):
                        yield public_home(name), name
                elif alias.name.startswith("ksparse."):
                    yield inside(alias.name), None
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ksparse":
            module = inside(node.module)
            for alias in node.names:
                name = f"{module}.{alias.name}".lstrip(".")
                if name in MODULES:
                    yield name, None
                else:
                    yield module or public_home(alias.name), alias.name
        elif isinstance(node, ast.Call) and (name := imported_by_call(node)) is not None:
            yield inside(name), None


def inside(module):
    return module.removeprefix("ksparse").strip(".")


def attributes_of(tree, name):
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == name:
            yield node.attr


def imported_by_call(call):
    """The module of ksparse that `import_module("ksparse...")` names, or None."""
    function = ast.unparse(call.func).split(".")[-1]
    if function not in ("import_module", "__import__") or not call.args:
        return None
    # Of an f-string, what stands before its first value.
    text = next((n.value for n in ast.walk(call.args[0]) if isinstance(n, ast.Constant)), "")
    return text if text.split(".")[0] == "ksparse" else None


def part_of(module):
    return module.split(".")[0]


EDGES = {
    (name, module, imported)
    for name, tree in MODULES.items()
    for module, imported in imports(tree)
    # The package itself holds the public names, imports lazily, and has the version.
    if name != "" and (module, imported) != ("", "__version__")
}


def test_imports_are_seen_in_every_form():
    def seen(text):
        return set(imports(ast.parse(text)))

    assert seen("from ksparse import KSparse, tl") == {("estimator", "KSparse"), ("tl", None)}
    assert seen("import ksparse as ks\nks.choose_k") == {("selection.cluster_number", "choose_k")}
    assert seen("import ksparse.io.files") == {("io.files", None)}
    assert seen("from ksparse.io import files") == {("io.files", None)}
    assert seen("def f():\n    from ksparse.io.files import _x") == {("io.files", "_x")}
    assert seen("importlib.import_module('ksparse.cli._jobs')") == {("cli._jobs", None)}
    assert seen("import_module(f'ksparse.cli.{name}')") == {("cli", None)}
    assert seen("import_module('numpy')") == set()


def test_no_import_is_relative():
    relative = [
        f"{name}, line {node.lineno}"
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not relative


def test_every_part_has_a_place_in_the_plan():
    assert {part_of(name) for name in MODULES if name} == set(ALLOWED)


def test_arrows_go_one_way():
    wrong = [
        f"{name} -> {module}"
        for name, module, _ in EDGES
        if part_of(name) != part_of(module) and part_of(module) not in ALLOWED[part_of(name)]
    ]
    assert not wrong


def test_the_plan_itself_has_no_cycle():
    left = dict(ALLOWED)
    while left:
        free = [part for part, below in left.items() if not below & set(left) - {part}]
        assert free, f"cycle among {sorted(left)}"
        for part in free:
            del left[part]


def test_no_modules_import_each_other_in_a_circle():
    below = {name: {m for n, m, _ in EDGES if n == name and m in MODULES} for name in MODULES}
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for module in sorted(below[name]):
            visit(module)
        path.pop()
        done.add(name)

    for name in MODULES:
        visit(name)


def test_no_private_name_or_module_crosses_packages():
    wrong = []
    for name, module, imported in EDGES:
        if part_of(name) == part_of(module):
            continue
        inner = module.split(".")[1:]
        if any(word.startswith("_") for word in (*inner, imported or "")):
            wrong.append(f"{name} imports {module}.{imported}")
    assert not wrong


def private(name):
    return name.startswith("_") and not name.startswith("__")


# Private attributes of other libraries, where there is no public way.
FOREIGN = {
    ("_compile", "_cache"): "numba lets nobody choose the cache of a function",
}


def test_no_private_attribute_is_used_outside_its_package():
    """`x._name` only where the package itself defines `_name`: in a class, or on `self`."""
    defined = {part_of(name): set() for name in MODULES}
    used = []
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                defined[part_of(name)].add(node.name)
            elif isinstance(node, ast.Attribute) and private(node.attr):
                if ast.unparse(node.value) == "os":
                    continue  # os._exit is public
                if ast.unparse(node.value) not in ("self", "cls", "super()"):
                    used.append((name, node.lineno, node.attr))
                elif isinstance(node.ctx, ast.Store):
                    defined[part_of(name)].add(node.attr)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
                attribute = getattr(node.args[1], "value", "")
                if isinstance(attribute, str) and private(attribute):
                    used.append((name, node.lineno, attribute))
    wrong = [
        f"{name}, line {line}: {attribute}"
        for name, line, attribute in used
        if attribute not in defined[part_of(name)] and (name, attribute) not in FOREIGN
    ]
    assert not wrong


@pytest.mark.parametrize("part", ["tl", "pl", "report", "cli"])
def test_the_shells_store_and_read_results_through_the_schema(part):
    wrong = [
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for name, tree in MODULES.items()
        if part_of(name) == part
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr in ("uns", "obsm", "varm"))
        or (isinstance(node, ast.Subscript) and re.search(r"(?i)\bkey", ast.unparse(node.slice)))
    ]
    assert not wrong


# Parameters that the command line has other words for; those that are English words, too, are
# seen where they begin a message or have a value.
PARAMETER_NAMES = {*PARAMETERS, *(word for word in WORDS if word.isidentifier()), "sample_weight",
                   "key_added"}  # fmt: skip
ONLY_NAMES = {"adata", "ks", *(name for name in PARAMETER_NAMES if "_" in name)}
NAMED = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(ONLY_NAMES)})(?![\w-])"
    rf"|(?<![\w.-])(?:{'|'.join(PARAMETER_NAMES)})="
    r"|ksparse\.\w+|\w\.\w+\("  # functions of Python
)
FIRST = re.compile(rf"(?:{'|'.join(PARAMETER_NAMES)})\b")


def plain_parts(call):
    """The texts of a message that are no terms, with {} for values in them."""
    for number, part in enumerate(call.args):
        if isinstance(part, ast.Call):  # a Term
            continue
        inserted = {n for v in ast.walk(part) if isinstance(v, ast.FormattedValue)
                    for n in ast.walk(v)}  # fmt: skip
        texts = [n.value for n in ast.walk(part) if isinstance(n, ast.Constant)
                 and n not in inserted and isinstance(n.value, str)]  # fmt: skip
        yield number, "{}".join(texts)


def untranslated(tree):
    """Lines and texts of messages that name parameters otherwise than by `Term`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in MESSAGES:
            for number, text in plain_parts(node):
                if NAMED.search(text) or (number == 0 and FIRST.match(text)):
                    yield node.lineno, text


MESSAGES = ("InputError", "warn", "warnings.warn", "ValueError", "TypeError")


def test_messages_name_parameters_by_terms():
    """Otherwise the command line would print the words of Python."""

    def seen(text):
        return [line for line, _ in untranslated(ast.parse(text))]

    assert seen("InputError('ks contains 50')")
    assert seen("InputError(f'{n} samples, fewer than n_clusters={k}')")
    assert seen("warn(Term('adata'), ' is bad: call adata.copy() first.')")
    assert seen("warnings.warn('labels must be text.')")
    assert not seen("InputError(Term('ks'), ' contains labels.')")
    wrong = [
        f"{name}, line {line}: {text}"
        for name, tree in MODULES.items()
        for line, text in untranslated(tree)
    ]
    assert not wrong


def test_storage_is_known_in_one_place():
    wrong = []
    for name, tree in MODULES.items():
        if part_of(name) in STORAGE:
            continue
        for node in ast.walk(tree):
            words = []
            if isinstance(node, ast.Name):
                words = [node.id]
            elif isinstance(node, ast.Attribute):
                words = [node.attr]
            elif isinstance(node, ast.ImportFrom):
                words = [alias.name for alias in node.names]
            if {"issparse", "Blocks"} & set(words):
                wrong.append(f"{name}, line {node.lineno}")
    assert not wrong


def test_the_core_knows_no_file_progress_bar_or_table():
    for name, tree in MODULES.items():
        if part_of(name) in ("core", "matrix"):
            outside = {
                (alias.name if isinstance(node, ast.Import) else node.module).split(".")[0]
                for node in ast.walk(tree)
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
            }
            assert not outside & {"tqdm", "pandas", "anndata", "click", "signal", "json"}, name


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: p.name)
def test_modules_are_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


def functions(tree):
    """Pairs (name, number of lines without the docstring) of all functions of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield node.name, body[-1].end_lineno - body[0].lineno + 1 if body else 0


def test_functions_are_short():
    long = [
        f"{module}.{name}: {n_lines} lines"
        for module, tree in MODULES.items()
        for name, n_lines in functions(tree)
        if n_lines > 60
    ]
    assert not long


def files_of_a_fit(**parameters):
    """The files of ksparse in which a function runs during a fit."""
    X, _, _ = make_clusters(0)
    KSparse(3, random_state=0, **parameters).fit(X)  # imports are not counted
    files = set()

    def profile(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT) + os.sep):
            files.add(Path(frame.f_code.co_filename).relative_to(ROOT).as_posix())

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        KSparse(3, random_state=0, **parameters).fit(X)
    finally:
        sys.setprofile(before)
    return files


def test_a_fit_passes_through_few_files():
    by_l1 = {"n_features": 10, "selector": "l1"}
    assert len(files_of_a_fit(**by_l1, init="spectral")) <= 16
    assert len(files_of_a_fit(**by_l1, init=["spectral", "pca"])) <= 20
    assert len(files_of_a_fit()) <= 23
    assert len(files_of_a_fit(n_features=3)) <= 25
