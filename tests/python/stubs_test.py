"""The stubs say what the module has: names, parameters, and no more."""
import ast
import inspect
import pathlib
import re
import unittest

import tilewright
from support import main
from tilewright import _core

STUBS = ast.parse(pathlib.Path(tilewright.__file__).with_name("_core.pyi").read_text())
CLASSES = {node.name: node for node in STUBS.body if isinstance(node, ast.ClassDef)}


def stubbed(node: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}


def own_names(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")
            or name in ("__call__", "__getitem__", "__enter__", "__exit__", "__init__")}


class Stubs(unittest.TestCase):
    def test_classes_and_members(self):
        shown = {name for name, kind in vars(_core).items() if inspect.isclass(kind)}
        self.assertEqual(shown, set(CLASSES))
        for name, node in CLASSES.items():
            kind = getattr(_core, name)
            constructed = {"__init__"} - set(stubbed(node))  # pybind11 gives each class one
            self.assertEqual(set(stubbed(node)), own_names(kind) - constructed, name)

    def test_parameters(self):
        compared = 0
        for name, node in CLASSES.items():
            for method, stub in stubbed(node).items():
                doc = getattr(getattr(_core, name), method).__doc__ or ""
                signature = re.match(r"\w+\(self: [\w.]+(?:, (.*?))?\) -> ", doc)
                if not signature or method in ("__call__", "__exit__"):  # *args there
                    continue
                told = re.findall(r"(?:^|, )(\*|\w+)(?=:|,|$)", signature[1] or "")
                wanted = [argument.arg for argument in stub.args.args[1:]]
                if stub.args.kwonlyargs:
                    wanted += ["*"] + [argument.arg for argument in stub.args.kwonlyargs]
                self.assertEqual(told, wanted, f"{name}.{method}")
                compared += 1
        self.assertGreater(compared, 8)

    def test_everything_public_is_documented(self):
        for name in tilewright.__all__:
            if name != "__version__":
                self.assertTrue(getattr(tilewright, name).__doc__, name)
        for name, node in CLASSES.items():
            for method in stubbed(node):
                if not method.startswith("__"):
                    self.assertIn(" ", getattr(getattr(_core, name), method).__doc__, method)
        self.assertTrue(pathlib.Path(tilewright.__file__).with_name("py.typed").exists())


if __name__ == "__main__":
    main()
