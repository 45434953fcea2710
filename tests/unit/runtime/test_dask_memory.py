"""A worker that Dask's nanny started does not ask the kernel for the same memory again and again."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from taskveil.runtime.dask.worker import BY_DASK

FAULTS = """
import resource, sys
import numpy as np
from taskveil.runtime.dask.worker import keep_freed_memory

agreed = sys.argv[1] == "kept" and keep_freed_memory()
for k in range(60):
    before = before if k > 10 else resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(2**17) + np.ones(2**17)  # three arrays of a mebibyte
print(agreed, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str, threshold: str) -> tuple[str, int]:
    environment = {**os.environ, "MALLOC_TRIM_THRESHOLD_": threshold}
    done = subprocess.run([sys.executable, "-c", FAULTS, how], env=environment, check=True, capture_output=True, text=True)
    agreed, count = done.stdout.split()
    return agreed, int(count)


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of the C library of Linux")
def test_freed_memory_is_used_again_on_workers_of_dask():
    """50 times 768 pages; the twin: as Dask sets it, each is faulted in anew. A value of somebody's own is left alone."""
    asked = 50 * 3 * 2**20 // os.sysconf("SC_PAGE_SIZE")
    agreed, kept = faults("kept", BY_DASK)
    if agreed == "False":
        pytest.skip("another C library")
    assert kept < asked / 20 < asked / 2 < faults("as it is", BY_DASK)[1]
    assert faults("kept", "70000")[0] == "False"
