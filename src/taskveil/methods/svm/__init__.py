"""Federated multi-task support vector machines (Ponomarenko-Timofeev et al.; docs/theory/svm.md).

method.py       options, releases, certificate          coordinator.py  the server without privacy
tasks.py        what a participant does                 private.py      the server with noise (Moreau steps)
margins.py      what svm and mocha share
masks.py        Bernoulli and Beta masks (no guarantee) central.py      one process: sequential, local, pooled
"""
