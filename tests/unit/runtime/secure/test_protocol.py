"""Right sum or clean refusal: dropouts at every step, changed messages, replays, two stories about the
cohort."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.secure_runs import parties

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import Identity, SecureClient, SecureServer, SecureSettings, secure_total
from taskveil.runtime.secure.run import carry

STEPS = 5


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_dropouts_at_any_step_give_the_right_sum_or_a_refusal(data):
    n = data.draw(st.integers(3, 8), label="sites")
    smallest = data.draw(st.integers((n + 1) // 2 + 1, n), label="min_cohort")  # 2 min_cohort > n + colluders
    bits = data.draw(st.sampled_from([8, 17, 32, 50]), label="bits")
    leaves = data.draw(st.lists(st.sampled_from([None, None, 0, 1, 2, 3, 4]), min_size=n, max_size=n), label="leaves")
    inputs = np.random.default_rng(0).integers(-(2 ** (bits - 4)), 2 ** (bits - 4), size=(n, 6))
    config = SecureSettings.choose(n, 6, bits, colluders=1, min_cohort=smallest)
    gone = sum(step is not None for step in leaves)
    in_sum = [task for task, step in enumerate(leaves) if step is None or step > 2]
    try:
        total, cohort = secure_total(inputs, config, drops=lambda step, task: leaves[task] is not None and step >= leaves[task])
    except SecureSumRefused:
        assert gone > n - smallest  # within the tolerance a round never fails
        return
    assert list(cohort) == in_sum and len(cohort) >= smallest
    assert np.array_equal(total, config.ring.centre(config.ring.encode(inputs[in_sum].sum(axis=0))))


@pytest.mark.parametrize("step", range(STEPS))
def test_one_dropout_more_than_allowed_releases_nothing(step):
    config = SecureSettings.choose(6, 4, 32, colluders=1, min_cohort=4)
    server, clients = parties(np.ones((6, 4), dtype=np.int64), config)
    with pytest.raises(SecureSumRefused):
        carry(server, clients, drops=lambda at, task: at >= step and task < 3)
    assert server.total is None


@pytest.mark.parametrize("step", range(STEPS))
def test_sparse_graphs_recover_from_dropouts_too(step):
    n = 60
    config = SecureSettings(n, 8, 24, colluders=3, min_cohort=52, degree=20, threshold=13)
    inputs = np.random.default_rng(step).integers(-500, 500, size=(n, 8))
    total, cohort = secure_total(inputs, config, drops=lambda at, task: at >= step and task % 10 == 3)
    assert len(cohort) == (54 if step <= 2 else 60)
    assert np.array_equal(total, inputs[list(cohort)].sum(axis=0))


def run_until(step, n=4, **options):
    """A round up to the answers of `step`, which the caller may change before the server sees them."""
    config = SecureSettings.choose(n, 5, 32, colluders=1, min_cohort=options.get("min_cohort", n - 1))
    server, clients = parties(np.arange(5 * n).reshape(n, 5), config)
    outgoing = server.start()
    for _ in range(step):
        outgoing = server.step({task: clients[task].step(message) for task, message in outgoing.items()})
    return server, clients, outgoing


def test_keys_that_are_not_signed_by_their_owner_are_refused():
    _, clients, outgoing = run_until(1)
    message = outgoing[0]
    swapped = (message.mask_keys[1], message.mask_keys[0], *message.mask_keys[2:])
    with pytest.raises(SecureSumRefused, match="not signed"):
        clients[0].step(replace(message, mask_keys=swapped))


def test_a_task_enters_a_round_once():
    config = SecureSettings.choose(3, 2, 16, colluders=1, min_cohort=3)
    identity, server = Identity(), SecureServer(config, {})
    for attempt in range(2):
        task = SecureClient(0, config, identity, {0: identity.public}, np.zeros(2, dtype=np.int64))
        if attempt == 0:
            task.step(server.start()[0])
        else:
            with pytest.raises(SecureSumRefused, match="entered before"):
                task.step(server.start()[0])


def test_messages_of_another_round_or_out_of_order_are_refused():
    server, clients, outgoing = run_until(1)
    with pytest.raises(SecureSumRefused, match="another round"):
        clients[0].step(replace(outgoing[0], round_id=b"x" * 32))
    with pytest.raises(SecureSumRefused, match="out of order"):
        clients[1].step(server.start()[1])
    late = {task: replace(clients[task].step(m), round_id=b"y" * 32) for task, m in outgoing.items() if task > 1}
    with pytest.raises(SecureSumRefused, match="0 sites answered"):
        server.step(late)


def test_a_refusal_is_final_for_the_task():
    _, clients, outgoing = run_until(3)
    small = replace(outgoing[0], members=(0, 1))
    with pytest.raises(SecureSumRefused, match="2 sites are left, 3 are needed"):
        clients[0].step(small)
    with pytest.raises(SecureSumRefused, match="out of order"):
        clients[0].step(outgoing[0])


def test_no_task_ever_opens_both_secrets_of_another():
    server, clients = parties(np.ones((5, 3), dtype=np.int64), SecureSettings.choose(5, 3, 32, colluders=1, min_cohort=4))
    carry(server, clients, drops=lambda step, task: task == 4 and step >= 2)
    for reply in server.transcript[4].values():
        assert not set(reply.self_owners) & set(reply.key_owners)
        assert reply.key_owners == (4,) and 4 not in reply.self_owners


def test_settings_must_agree():
    config = SecureSettings.choose(3, 2, 16, colluders=1, min_cohort=3)
    other = SecureSettings.choose(3, 2, 17, colluders=1, min_cohort=3)
    task = SecureClient(0, config, Identity(), {}, np.zeros(2, dtype=np.int64))
    with pytest.raises(SecureSumRefused, match="other settings"):
        task.step(SecureServer(other, {}).start()[0])


def test_inputs_of_the_wrong_form_are_refused():
    config = SecureSettings.choose(3, 2, 16, colluders=1, min_cohort=3)
    for wrong in (np.zeros(3, dtype=np.int64), np.zeros(2)):
        with pytest.raises(SecureSumRefused):
            SecureClient(0, config, Identity(), {}, wrong)


def test_an_input_damaged_on_its_way_counts_as_missing_never_as_a_wrong_sum():
    server, clients, outgoing = run_until(2)
    replies = {task: clients[task].step(message) for task, message in outgoing.items()}
    values = replies[1].values.copy()
    values[0] ^= 1
    replies[1] = replace(replies[1], values=values)
    outgoing = server.step(replies)
    while outgoing is not None:
        outgoing = server.step({task: clients[task].step(message) for task, message in outgoing.items()})
    assert server.cohort == (0, 2, 3)
    assert np.array_equal(server.settings.ring.centre(server.total), np.arange(20).reshape(4, 5)[[0, 2, 3]].sum(axis=0))


def test_incomplete_lists_are_refused():
    _, clients, outgoing = run_until(1)
    with pytest.raises(SecureSumRefused, match="incomplete"):
        clients[0].step(replace(outgoing[0], signatures=outgoing[0].signatures[:-1]))
    _, clients, outgoing = run_until(2)
    with pytest.raises(SecureSumRefused):
        clients[0].step(replace(outgoing[0], sealed=outgoing[0].sealed[:-1]))
