"""Asynchronous private multi-task learning (Xie et al. 2017): what `taskveil reproduce async-...` runs."""

ITEMS = {"time": "items:async_time", "composition": "items:async_composition"}
