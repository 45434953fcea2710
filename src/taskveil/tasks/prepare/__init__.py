"""Preparation: a raw table becomes what is public, what is a task's own, and what was released. Nothing else.

A guarantee starts at the raw table (docs/theory/preparation.md), so all that lies between table and first message is in this
folder:

    labels.py     the target: its kind, its values, its label set, the positive label
    encode.py     text to numbers: declared levels one-hot, undeclared text hashed
    unusable.py   missing cells; values no computer can calculate with: that task falls silent, the others never notice
    scaling.py    units, of features and target
    facts.py      what a run takes for granted, in words for the certificate, and what each unit refuses
    step.py       prepare_tasks(): the step itself, and two of the three values as types: PublicPart, OwnPart

Two laws, tested from the raw table (tests/property/test_preparation.py):

    unit = record   replace one raw row: at most one encoded row changes, and nothing else
    unit = task     replace all rows of a task: the encoded rows of every other task stay bitwise the same
"""
