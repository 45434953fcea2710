"""Our round as a program of its own, for comparisons in processor seconds on one thread.

Reads one line per round from standard input and answers with the processor seconds of the round.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from benchmarks.neural import compiled_round


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=64)
    call, about = compiled_round(parser.parse_args().clients)
    print(json.dumps(about), flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        call()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
