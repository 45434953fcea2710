"""Lengths are bounded by what was reached: files and functions can only get shorter."""

from pathlib import Path

from tools.lines import code_lines, functions, measured

LONGEST_FILE, LONGEST_FUNCTION = 400, 60
MOST_LINES, MOST_FILES = 35_605, 385  # what was reached; to be lowered with what is reached next

SAMPLE = '''"""What
this is."""

import os  # one


def outer(a):
    """Says
    what."""
    # no code

    def inner():
        return """two
lines"""

    return inner() + a
'''


def test_words_and_blanks_do_not_count():
    assert sorted(code_lines(SAMPLE)) == [4, 7, 12, 13, 14, 16]
    assert functions(SAMPLE) == {"outer:7": 5, "inner:12": 3}


def test_no_file_and_no_function_is_longer_than_allowed():
    found = measured()
    assert {name: n for name, n in found["files"].items() if n > LONGEST_FILE} == {}
    assert {name: n for name, n in found["functions"].items() if n > LONGEST_FUNCTION} == {}


def test_the_package_does_not_grow():
    total = measured()["total"]
    assert total["lines of code"] <= MOST_LINES and total["files"] <= MOST_FILES


def test_a_file_that_is_too_long_is_seen(tmp_path: Path):
    (tmp_path / "long.py").write_text("x = 1\n" * 401)
    assert measured(tmp_path)["files"] == {"long.py": 401}
