"""The rules of this code base that no linter knows, checked on the source with `ast`."""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "elmo_plugin").rglob("*.py"))
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    """Each function and method, nested ones too, with the place of its `def`."""
    for path, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, Function):
                yield f"{path}:{node.lineno} {node.name}", node


def public_definitions(tree: ast.Module | ast.ClassDef) -> Iterator[Function | ast.ClassDef]:
    """Classes, functions and methods that a user may name: no leading underscore on the way, none inside a function."""
    for node in tree.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            yield node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def arguments(function: Function) -> Iterator[ast.arg]:
    """All arguments but `self` and `cls`."""
    args = function.args
    for argument in [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]:
        if argument is not None and argument.arg not in ("self", "cls"):
            yield argument


def constructor_annotations(class_: ast.ClassDef) -> Iterator[ast.expr]:
    """What `FromParams` may read: annotations of `__init__`, of class methods and of a dataclass' fields."""
    for node in class_.body:
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and (
            node.name == "__init__" or "classmethod" in map(ast.unparse, node.decorator_list)
        ):
            yield from (argument.annotation for argument in arguments(node) if argument.annotation is not None)


def is_left_a_dict(annotation: ast.expr) -> bool:
    """`FromParams` silently hands on the config's dict for `X | None`, and for `"X"`, as postponed annotations are."""
    is_literal = "Literal" in ast.unparse(annotation)
    return not is_literal and any(
        isinstance(part, ast.BinOp) or isinstance(getattr(part, "value", None), str) for part in ast.walk(annotation)
    )


def test_a_package_is_used_through_the_names_in_its_init() -> None:
    past = []
    for path, tree in TREES.items():
        own = ".".join(path.removesuffix(".py").split("/")[:2])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elmo_plugin."):
                package = ".".join((node.module or "").split(".")[:2])
                public = getattr(importlib.import_module(package), "__all__", None)
                if package == own or public is None:  # modules directly in elmo_plugin have no `__all__`
                    continue
                past += [
                    f"{path}:{node.lineno} {name.name}"
                    for name in node.names
                    if node.module != package or name.name not in public
                ]
    assert not past


def test_a_class_is_abstract_or_final() -> None:
    modules = [importlib.import_module(path.removesuffix(".py").replace("/", ".")) for path in TREES]
    classes = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    bases = {(one, base) for one in classes for base in one.__mro__[1:] if _is_ours(one) and _is_ours(base)}
    assert bases and not {pair for pair in bases if not inspect.isabstract(pair[1])}


def _is_ours(one: type) -> bool:
    return one.__module__.split(".")[0] == "elmo_plugin"


def test_every_public_class_and_function_is_documented() -> None:
    undocumented = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in TREES.items()
        for node in public_definitions(tree)
        if not ast.get_docstring(node)
    ]
    assert not undocumented


def test_98_percent_of_arguments_are_annotated() -> None:
    annotated = {
        f"{place}({argument.arg})": argument.annotation is not None
        for place, node in functions()
        for argument in arguments(node)
    }
    bare = [place for place, is_annotated in annotated.items() if not is_annotated]
    assert len(bare) <= 0.02 * len(annotated), bare


def test_no_file_is_named_for_holding_anything() -> None:
    nameless = {"utils", "util", "helpers", "misc"}
    assert not [path for path in TREES if nameless & set(Path(path).with_suffix("").parts)]


def test_annotations_are_those_that_from_params_can_read() -> None:
    postponed = [
        path
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    assert not postponed
    unread = [
        f"{path}:{annotation.lineno} {ast.unparse(annotation)}"
        for path, tree in TREES.items()
        for class_ in ast.walk(tree)
        if isinstance(class_, ast.ClassDef)
        for annotation in constructor_annotations(class_)
        if is_left_a_dict(annotation)
    ]
    assert not unread


def test_no_test_file_is_named_so_that_pytest_misses_it() -> None:
    assert not [path for path in (ROOT / "tests").rglob("test_*.py")]
