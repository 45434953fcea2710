"""What a site must not forget between two messages: the protocol, and a memory that lives in this process only."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any, Protocol

from taskveil.methods.base import Models, State, View

Last = tuple[int, State, bytes]  # number of the last answered message, task state after it, the answer


class Memory(Protocol):
    """What a site must not forget: files (site_state.py), or `Volatile`."""

    @property
    def finished(self) -> bool: ...

    def lock(self) -> AbstractContextManager[Any]:
        """Held from reading the memory to saving it: two processes never answer at once."""

    def load(self) -> Last | None: ...

    def save(self, number: int, state: State, reply: bytes) -> None: ...

    def keep_models(self, models: Models, view: View) -> None: ...

    def load_secure(self) -> bytes | None: ...

    def save_secure(self, data: bytes) -> None: ...


class Volatile:
    """Memory of a site that lives and dies with this process."""

    def __init__(self) -> None:
        self.last: Last | None = None
        self.models: Models | None = None
        self.secure: bytes | None = None
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        return self.models is not None

    def lock(self) -> AbstractContextManager[Any]:
        return self._lock

    def load_secure(self) -> bytes | None:
        return self.secure

    def save_secure(self, data: bytes) -> None:
        self.secure = data

    def load(self) -> Last | None:
        return self.last

    def save(self, number: int, state: State, reply: bytes) -> None:
        self.last = (number, state, reply)

    def keep_models(self, models: Models, view: View) -> None:
        self.models = models
