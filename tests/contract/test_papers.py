"""What a paper prints is another class under the same name, and nothing else in a method knows of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskveil import methods
from taskveil.errors import OptionError
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import VARIANTS, Budget

SOURCE = Path(methods.__file__).parent
PRINTED = [(name, v) for name in methods.names() for v in methods.get(name).forms if v in VARIANTS]


@pytest.mark.parametrize("name, variant", PRINTED)
def test_a_printed_form_has_the_name_and_the_options_of_its_method(name, variant):
    sound = methods.get(name, rounds=3) if "rounds" in methods.get(name).get_params() else methods.get(name)
    printed = sound.under("task", variant)
    assert variant in printed.variants and "sound" not in printed.variants
    assert (printed.name, printed.get_params()) == (sound.name, sound.get_params())
    assert type(printed).__module__.startswith("taskveil.methods.papers.")
    assert printed.under("task", variant) is printed and sound.under("task") is sound


@pytest.mark.parametrize("name, variant", PRINTED)
def test_neither_form_runs_under_the_words_of_the_other(name, variant):
    """Twin: a sound plan labelled as a paper's, or a paper's labelled as sound, would pass without the check."""
    public, sound = PublicInfo(6, 4, 1, "regression"), methods.get(name)
    unit = sound.units[0]
    with pytest.raises(OptionError, match="has variants"):
        sound.check(public, Budget(None, 1e-5, unit, variant=variant))
    with pytest.raises(OptionError, match="has variants"):
        sound.under(unit, variant).check(public, Budget(None, 1e-5, unit))


def test_sound_methods_do_not_ask_which_variant_runs():
    asked = [p.name for p in SOURCE.rglob("*.py") if "papers" not in p.parts and "variant ==" in p.read_text()]
    assert not asked
