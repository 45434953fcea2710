import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.secure_runs import conversation

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import messages


def test_every_message_of_a_round_survives_the_wire():
    kinds = set()
    for message in conversation():
        kinds.add(type(message))
        again = messages.decode(messages.encode(message))
        assert type(again) is type(message)
        for name in message.__dataclass_fields__:
            assert np.array_equal(getattr(again, name), getattr(message, name))
    assert len(kinds) == 10


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_cleanly(data):
    with pytest.raises(SecureSumRefused):
        messages.decode(data)


def test_truncated_and_padded_messages_are_refused():
    for message in conversation():
        data = messages.encode(message)
        for broken in (data[:-1], data + b"\0", data[:3]):
            with pytest.raises(SecureSumRefused):
                messages.decode(broken)


def test_only_unsigned_words_are_read_as_arrays():
    data = messages.encode(messages.MaskedInput(b"r", 0, np.zeros(3, dtype="<f8"), b""))
    with pytest.raises(SecureSumRefused):
        messages.decode(data)
