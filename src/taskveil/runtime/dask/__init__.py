"""The loop over partitions of whole tasks on a Dask cluster: the driver holds no rows, workers hold neither account nor noise.

    driver      server side, account, noise, plan, checkpoint: `in_process.run_rounds`, unchanged
    worker      rows and states of its partitions; answers a round with clipped partial sums on the integer grid
    scheduler   moves partial sums and billboards, adds sums up in a tree

Scheduler and workers are inside the curator's trust: they see clipped messages, workers see rows.
"""
