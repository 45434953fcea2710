"""Pure optimisation, batched over tasks: no privacy, no network, no private choice of what is sent.

Arrays: X (N, d) rows grouped by task, y (N, r), models W (m, r, d), intercepts b (m, r); m tasks, r outputs,
d features. Import the module you need; nothing heavy is imported here.
"""
