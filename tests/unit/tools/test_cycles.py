"""Modules that import each other are found, whatever the way around."""

from __future__ import annotations

from tools.cycles import cycles, imports, known_cycles, problems


def test_the_package_has_no_cycle_that_is_not_known():
    assert not problems(cycles(imports()), known_cycles())


def test_a_cycle_around_a_corner_is_found_and_a_chain_is_not():
    chain = {"a": {"b"}, "b": {"c"}, "c": set()}
    assert cycles(chain) == []
    assert cycles({**chain, "c": {"a"}, "d": {"a"}}) == [("a", "b", "c")]


def test_a_new_cycle_and_a_list_that_was_not_shortened_are_problems():
    known = [("a", "b", "c")]
    assert problems(known, known) == []
    assert "new cycle" in problems([("c", "d")], known)[0]
    assert "gone" in problems([("a", "b")], known)[0] and "gone" in problems([], known)[0]


def test_imports_inside_functions_count_and_those_for_type_checkers_do_not(tmp_path):
    package = tmp_path / "p"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("def f():\n    from p import b\n")
    (package / "b.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p.a import f\n")
    (package / "c.py").write_text("from . import b\nimport p.a\n")
    assert imports(tmp_path) == {"p": set(), "p.a": {"p.b"}, "p.b": set(), "p.c": {"p.a", "p.b"}}
