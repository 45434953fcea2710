"""With a public clock answers leave at public times, whatever the work took; the certificate says whether there is one."""

from __future__ import annotations

import os

import pytest

from taskveil.runtime.federation.site import decisions


class FakeTime:
    """Seconds that pass only where somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0.0
        self.now += seconds


@pytest.mark.parametrize(("work", "leaves"), [(0.0, 30.0), (0.5, 30.0), (29.0, 30.0), (31.0, 60.0)])
def test_answers_on_a_public_clock_leave_at_the_same_time_however_long_they_took(work, leaves, monkeypatch):
    clock = FakeTime()
    monkeypatch.setattr(decisions, "time", clock)
    answer = decisions.on_the_clock(lambda data: clock.sleep(work) or data, 30.0, clock.now)
    assert answer(b"x") == b"x" and clock.now == pytest.approx(100.0 + leaves)


def test_errors_wait_for_the_clock_too_and_without_one_nobody_waits(monkeypatch):
    clock = FakeTime()
    monkeypatch.setattr(decisions, "time", clock)
    with pytest.raises(FileNotFoundError):
        decisions.on_the_clock(lambda data: os.stat("/no/such/file"), 30.0, clock.now)(b"x")
    assert clock.now == pytest.approx(130.0)
    assert decisions.on_the_clock(lambda data: data, 0.0, clock.now)(b"x") == b"x" and clock.now == pytest.approx(130.0)


def test_the_certificate_says_whether_time_is_covered(tmp_path):
    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.runtime.federation.config import load_federation
    from taskveil.runtime.federation.server.training import certificate_of

    text = (
        '[federation]\nname = "t"\n[data]\nkind = "regression"\nfeatures = ["a"]\ntarget = "y"\n'
        '[run]\nmethod = "subspace"\nepsilon = 1.0\naggregation = "local"\n{rules}\n'
        '[[sites]]\nname = "n"\n[[sites]]\nname = "m"\n'
    )
    said = {}
    for name, rules in (("off", ""), ("on", "[rules]\nanswer_at = 30.0")):
        path = tmp_path / f"{name}.toml"
        path.write_text(text.format(rules=rules))
        federation = load_federation(path)
        plan = federation.plan()
        certificate = certificate_of(federation, plan, list(plan.releases), insecure_seeded_noise(1).describe())
        said[name] = certificate.to_json()
    assert "when a site answers" in said["off"] and "public clock, 30 s" in said["on"]
    assert "when a site answers" not in said["on"]
