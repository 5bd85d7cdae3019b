"""Pickles pass only between our own processes; nothing in the package runs text or code that came from elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import abreast

PACKAGE = Path(abreast.__file__).parent
# Both ends of these are ours: a socket pair that a worker inherits (see the modules' first lines).
MAY_PICKLE = {f"backend/torch/{name}.py" for name in ("channel", "pickle_model", "pickle_objects", "unpickle_model")}
MAY_DUMP = {"feed/values.py"}  # marshal, for a checksum of plain data: nothing is loaded
MAY_EXECUTE = {("run.py", "exec")}  # the user's own script
PICKLERS = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "copyreg"}
FORBIDDEN_CALLS = {"eval", "exec", "os.system", "os.popen", "torch.load", "pickle.load", "tempfile.mktemp", "yaml.load"}
FORBIDDEN_NAMES = {
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "scatter_object_list",
    "recv_object_list",
    "send_object_list",
}
FORBIDDEN_ARGUMENTS = {"shell": True, "allow_pickle": True, "weights_only": False, "safe_mode": False}


def test_only_these_modules_pickle() -> None:
    users = {name for name, tree in modules() if PICKLERS & set(imports(tree))}
    assert users == MAY_PICKLE | MAY_DUMP


def test_nothing_runs_text_as_code_or_loads_pickles_of_others() -> None:
    assert [found for name, tree in modules() for found in forbidden(name, tree)] == []


def test_each_ban_is_seen_to_be_broken() -> None:
    sample = "\n".join(
        [
            "eval('1')",
            "os.system('ls')",
            "torch.load(path)",
            "dist.broadcast_object_list([1])",
            "subprocess.run('ls', shell=True)",
            "np.load(path, allow_pickle=True)",
        ]
    )
    assert len(list(forbidden("sample.py", ast.parse(sample)))) == 6
    assert set(imports(ast.parse("import pickle as p\nfrom cloudpickle import loads"))) == {"pickle", "cloudpickle"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text())


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def forbidden(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in FORBIDDEN_NAMES:
            yield f"{name}:{node.lineno}: {node.attr}"
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in FORBIDDEN_CALLS and (name, called) not in MAY_EXECUTE:
            yield f"{name}:{node.lineno}: {called}"
        for keyword in node.keywords:
            value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
            if value is not None and value is FORBIDDEN_ARGUMENTS.get(keyword.arg or ""):
                yield f"{name}:{node.lineno}: {keyword.arg}={value}"
