"""Two rules that no linter knows: what `FromParams` can read, and which names other packages may import."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TREES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((ROOT / "elmo_plugin").rglob("*.py"))
}


def constructor_annotations(class_: ast.ClassDef) -> Iterator[ast.expr]:
    """Yield what `FromParams` may read: annotations of `__init__`, of class methods and of a dataclass' fields."""
    for node in class_.body:
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.FunctionDef) and (
            node.name == "__init__" or "classmethod" in map(ast.unparse, node.decorator_list)
        ):
            yield from (
                each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg) and each.annotation
            )


def test_annotations_are_those_that_from_params_can_read() -> None:
    """`FromParams` silently passes on the config's dict for `X | None` and for `"X"`, as postponed annotations are."""
    postponed = [
        path
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "__future__"
    ]
    unread = [
        f"{path}:{annotation.lineno} {ast.unparse(annotation)}"
        for path, tree in TREES.items()
        for class_ in ast.walk(tree)
        if isinstance(class_, ast.ClassDef)
        for annotation in constructor_annotations(class_)
        if "Literal" not in ast.unparse(annotation)
        if any(
            isinstance(part, ast.BinOp) or isinstance(getattr(part, "value", None), str)
            for part in ast.walk(annotation)
        )
    ]
    assert not postponed and not unread


def test_a_package_is_used_through_the_names_in_its_init() -> None:
    private = []
    for path, tree in TREES.items():
        own = ".".join(path.removesuffix(".py").split("/")[:2])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("elmo_plugin."):
                module = node.module or ""
                package = ".".join(module.split(".")[:2])
                public = importlib.import_module(package).__all__
                private += [
                    f"{path}:{node.lineno} {name.name}"
                    for name in node.names
                    if package != own and (module != package or name.name not in public)
                ]
    assert not private
