"""The type stubs say what is there."""

import ast
import inspect
import pathlib

import pytest
import sluice
from sluice import _engine

STUBS = ast.parse((pathlib.Path(sluice.__file__).parent / "_engine.pyi").read_text())
CLASSES = {node.name: node for node in STUBS.body if isinstance(node, ast.ClassDef)}
FUNCTIONS = {node.name: node for node in STUBS.body if isinstance(node, ast.FunctionDef)}
# There only where the module is built with UCX.
OPTIONAL = set() if sluice.build_info()["ucx"] else {"ProcessRank"}


def public(names):
    return {name for name in names if not name.startswith("_")}


def members(node):
    """Functions, properties and attributes that the stub of a class names."""
    names = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
    return names | {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}


def test_every_name_has_a_stub():
    assert public(vars(_engine)) | OPTIONAL == public(CLASSES) | public(FUNCTIONS) | OPTIONAL


@pytest.mark.parametrize("name", sorted(set(CLASSES) - OPTIONAL))
def test_a_class_and_its_stub(name):
    assert public(vars(getattr(_engine, name))) == public(members(CLASSES[name]))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_arguments_of_a_function(name):
    """As its docstring's first line has them."""
    arguments = FUNCTIONS[name].args
    signature = inspect.getdoc(getattr(_engine, name)).splitlines()[0]
    for each in [*arguments.args, *arguments.kwonlyargs]:
        assert f"{each.arg}: " in signature
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        assert f"{each.arg}: " in signature
        assert f"= {ast.literal_eval(default)!r}" in signature.split(f"{each.arg}: ", 1)[1].split(", ")[0]
