"""What pip installs, what importing costs, and that the words about it are true."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from slipstream.executor.hosts import bundled

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest itself requires there

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def source_folders():
    """Folders below nodes/ and executor/ that hold Python files."""
    return {path.parent for top in ("nodes", "executor") for path in (ROOT / top).rglob("*.py")}


def test_the_list_of_packages_is_the_tree():
    packages = {
        "slipstream",
        *(".".join(("slipstream", *f.relative_to(ROOT).parts)) for f in source_folders()),
    }
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(packages)
    assert [folder for folder in source_folders() if not (folder / "__init__.py").is_file()] == []


def test_modules_stay_small():
    lengths = {
        path: path.read_text(encoding="utf-8").count("\n")
        for f in source_folders()
        for path in f.glob("*.py")
    }
    assert {str(path): length for path, length in lengths.items() if length > 450} == {}


def run_python(program, cwd):
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=cwd, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_imports_nothing_heavy(tmp_path):
    program = """
import sys
import slipstream
import slipstream.executor.graph
import slipstream.executor.workflow.draft
assert isinstance(slipstream.NODE_CLASS_MAPPINGS, dict)
assert isinstance(slipstream.NODE_DISPLAY_NAME_MAPPINGS, dict)
assert not hasattr(slipstream, "anything_else")
print(sorted({"torch", "diffusers", "transformers", "numpy", "av", "PIL"} & set(sys.modules)))
"""
    assert run_python(program, tmp_path).strip() == "[]"


def test_comfyui_loads_the_folder_as_a_node_pack(tmp_path):
    """By path, under a name of its own, as ComfyUI loads what lies in custom_nodes/."""
    program = f"""
import importlib.util, sys
name = {str(ROOT)!r}.replace(".", "_x_")
spec = importlib.util.spec_from_file_location(name, {str(ROOT / "__init__.py")!r})
module = importlib.util.module_from_spec(spec)
sys.modules[name] = module
spec.loader.exec_module(module)
assert module.NODE_CLASS_MAPPINGS is not None
"""
    run_python(program, tmp_path)


@pytest.mark.slow
def test_the_wheel_holds_code_workflows_and_models_and_no_tests(tmp_path):
    # A copy, since the build would take stale files from an old build/ in the tree.
    ignored = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "*.egg-info", "__pycache__", "output")
    shutil.copytree(ROOT, tmp_path / "tree", ignore=ignored)
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*build, "-w", tmp_path, tmp_path / "tree"], check=True, timeout=300)
    (wheel,) = tmp_path.glob("slipstream-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (
            archive.read(name).decode() for name in names if name.endswith("/entry_points.txt")
        )
    assert "slipstream = slipstream.executor.cli:main" in entry_points
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    expected = [path for folder in source_folders() for path in folder.iterdir() if path.is_file()]
    expected += [ROOT / "__init__.py", *(ROOT / "workflows").glob("*.json")]
    models = (path for path in (ROOT / "workflows" / "models").rglob("[!.]*") if path.is_file())
    expected += [path for path in models if not {"training", "__pycache__"} & set(path.parts)]
    missing = {f"slipstream/{path.relative_to(ROOT).as_posix()}" for path in expected} - names
    assert missing == set()
    assert [
        name for name in names if name.startswith(("slipstream/tests", "tests/")) or "/training/" in name
    ] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_in_the_documents_resolve(document):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+://", target):
            continue
        path, _, anchor = target.partition("#")
        file = document if not path else document.parent / path
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)
    assert broken == []


def anchors(file):
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named_in_tables(document):
    rows = re.findall(r"^\|.*\|$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row)}


def test_the_node_classes_in_the_documents_are_those_there_are():
    there = set(bundled.host().nodes)
    assert named_in_tables(ROOT / "docs" / "nodes.md") == there
    assert named_in_tables(ROOT / "README.md") - there == set()


def readme_commands():
    return re.findall(
        r"^(python3 -m venv .+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_readme_has_two_commands_and_ci_runs_the_second():
    first, second = readme_commands()
    assert first.endswith("slipstream run workflows/hello.json")
    assert second in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_constraints_cover_the_dependencies():
    pinned = dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    project = PROJECT["project"]
    for requirement in project["dependencies"] + project["optional-dependencies"]["test"]:
        assert re.match(r"[\w-]+", requirement)[0] in pinned
    assert pinned["torch"] == "2.13.0"
