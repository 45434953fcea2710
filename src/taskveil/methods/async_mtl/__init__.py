"""Asynchronous private multi-task learning (Xie et al. 2017), corrected: see method.py."""

from taskveil.methods.async_mtl.method import AsyncMTL

__all__ = ["AsyncMTL"]
