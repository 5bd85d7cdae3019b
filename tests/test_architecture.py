"""The architecture as a test: imports point one way, without circles, and few modules import frameworks or Keras's insides.

`LAYERS` is the one place where the direction is written down.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[1] / "src"
# From top to bottom. A package or module imports from its own layer and those below it.
LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(layer.split())
    for layer in (
        "__main__ cli completion_command",
        """
        bench
        checking
        doctor
        machine
        page
        plan
        records
        samplers
        timeline
        torture
        """,
        """
        all_hosts
        backend_choice
        checkpoints
        devices_command
        dry_run
        first_use
        host_options
        env_command
        environment_facts
        keras_fit
        numerics
        parallel
        placed_models
        ray
        run
        run_command
        run_lines
        state
        together
        """,
        "backend",
        "exact feed hosts workers",
        """
        after_import
        apart_from_sources
        arrays
        asked_to_end
        contexts
        cpu
        deterministic
        device_list
        device_request
        durable_files
        errors
        ever_rarer
        gradient_bytes
        horovod
        hosts
        import_hooks
        installing
        keras_distribution
        keras_private
        launchers
        limits
        nearest
        notebook
        options
        plain_json
        process_groups
        provenance
        replacing
        shares
        spans
        staging
        stderr
        stdout
        system_files
        taken_over
        text_table
        threads
        typed_command
        units
        users_functions
        users_line
        whole_file
        """,
    )
)
FRAMEWORKS = {"jax", "tensorflow", "torch"}
# The rivals of a benchmark are loops as one writes them by hand, so they use their framework directly.
RIVALS = {f"abreast.bench.native_{name}" for name in FRAMEWORKS}

Imports = dict[str, set[str]]


def test_imports_point_one_way() -> None:
    assert against_the_direction(imports_of(SRC)) == []


def test_an_import_against_the_direction_is_noticed() -> None:
    planted = imports_of(SRC)
    planted["abreast.feed.batch"].add("abreast.backend.contract")
    assert against_the_direction(planted) == ["abreast.feed.batch -> abreast.backend.contract"]


def test_every_module_has_a_layer() -> None:
    found = {part for module in imports_of(SRC) if (part := part_of(module))}
    assert found == {part for layer in LAYERS for part in layer}


def test_no_modules_and_no_packages_import_one_another_in_a_circle() -> None:
    imports = imports_of(SRC)
    assert circles(imports) == []
    assert circles(between_packages(imports)) == []


@pytest.mark.parametrize("planted", ["abreast.errors", "abreast.feed.adapter"])
def test_a_circle_is_noticed(planted: str) -> None:
    imports = imports_of(SRC)
    imports[planted].add("abreast.feed")
    assert circles(imports)


def test_only_backends_import_a_framework() -> None:
    found = {module for module, names in imports_of(SRC).items() if FRAMEWORKS & {name.split(".")[0] for name in names}}
    assert {module for module in found if not module.startswith("abreast.backend.")} == RIVALS


def test_only_keras_private_imports_private_modules_of_keras() -> None:
    assert importers_of_private_keras(imports_of(SRC)) == []


@pytest.mark.parametrize("planted", ["keras.src", "keras.src.backend.common.masking", "keras.src.trainers"])
def test_an_import_of_a_private_module_of_keras_is_noticed(planted: str) -> None:
    imports = imports_of(SRC)
    imports["abreast.feed.batch"].add(planted)
    assert importers_of_private_keras(imports) == ["abreast.feed.batch"]


def test_an_import_that_names_keras_src_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("from keras import src, tree\n")
    assert importers_of_private_keras(imports_of(tmp_path)) == ["planted"]


def importers_of_private_keras(imports: Imports) -> list[str]:
    found = {one for one, names in imports.items() if any(f"{name}.".startswith("keras.src.") for name in names)}
    return sorted(one for one in found if part_of(one) != "keras_private")


def test_keras_private_imports_a_framework_only_for_its_backend() -> None:
    """Keras's modules of a framework import it: the modules that import them are named after it, and its backend's alone."""
    homes = {name: f"abreast.keras_private.{name}" for name in FRAMEWORKS}
    imports = imports_of(SRC)
    for name, home in homes.items():
        users = {one for one, names in imports.items() if any(n.startswith(f"keras.src.backend.{name}") for n in names)}
        assert users == {home}
        importers = {one for one, names in imports.items() if home in names}
        assert importers and all(one.startswith(f"abreast.backend.{name}.") for one in importers)


def against_the_direction(imports: Imports) -> list[str]:
    """Imports of a higher layer, as `importer -> imported`."""
    height = {part: -number for number, layer in enumerate(LAYERS) for part in layer}
    pairs = [(one, other) for one, others in imports.items() for other in others if part_of(one) and part_of(other)]
    return sorted(f"{one} -> {other}" for one, other in pairs if height[part_of(other)] > height[part_of(one)])


def imports_of(src: Path) -> Imports:
    """The modules that each module of abreast imports, at once or in a function, except for type checkers alone."""
    return {module: set(names) for module, names in _read(src)}


@functools.cache
def _read(src: Path) -> list[tuple[str, frozenset[str]]]:
    modules = {_name(path, src) for path in src.rglob("*.py")}
    trees = ((_name(path, src), ast.parse(path.read_text())) for path in src.rglob("*.py"))
    return [(module, frozenset(_imports(tree, modules))) for module, tree in trees]


def part_of(module: str) -> str:
    """The package or module of abreast that a module belongs to; empty for abreast itself and for others."""
    names = module.split(".")
    return names[1] if names[0] == "abreast" and len(names) > 1 else ""


def between_packages(imports: Imports) -> Imports:
    found: Imports = {}
    for one, others in imports.items():
        found.setdefault(part_of(one), set()).update(part_of(other) for other in others if part_of(other))
    return {one: others - {one} for one, others in found.items() if one}


def circles(imports: Imports) -> list[list[str]]:
    """Each circle once, as the modules that are left when all that import nothing of the rest are taken away."""
    left = {one: others & imports.keys() for one, others in imports.items()}
    while ends := [one for one, others in left.items() if not others]:
        left = {one: others.difference(ends) for one, others in left.items() if one not in ends}
    return [sorted(left)] if left else []


def _name(path: Path, src: Path) -> str:
    return ".".join(path.relative_to(src).with_suffix("").parts).removesuffix(".__init__")


def _imports(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    only_for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in only_for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules or name == "keras.src" else node.module for name in full)
