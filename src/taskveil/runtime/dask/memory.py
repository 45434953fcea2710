"""Memory that one step has freed serves the next.

Dask's nannies start workers with MALLOC_TRIM_THRESHOLD_=65536: the C library gives freed memory back to the kernel at once. A
step makes and frees thousands of arrays of a megabyte or so, and every one of them was mapped and zeroed anew, which took as long
as the arithmetic. Here limits are those which the C library of Linux finds by itself where it is left alone. Partitions are
larger: their memory still goes back when they are put on disk.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache

BY_DASK = "65536"  # its default; another value is somebody's choice
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT, MAPPED = 2**26, 2**21  # bytes free at the end of the heap that stay; bytes from which an array has a mapping of its own


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Once in a worker that Dask started; whether the C library agreed."""
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") != BY_DASK:
        return False
    try:
        set_limit = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # another C library: the variable means nothing to it
    return bool(set_limit(M_MMAP_THRESHOLD, MAPPED)) and bool(set_limit(M_TRIM_THRESHOLD, KEPT))
