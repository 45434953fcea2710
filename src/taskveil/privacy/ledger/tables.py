"""The ledger's tables as they are now; migrations.py has the steps that brought them there."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Integer, MetaData, String, Table, Text, UniqueConstraint

metadata = MetaData()

steps = Table("taskveil_steps", metadata, Column("name", String(60), primary_key=True))

accounts = Table(
    "taskveil_accounts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(200), nullable=False),
    Column("unit", String(20), nullable=False),
    Column("neighbours", String(20), nullable=False),
    Column("observer", String(20), nullable=False),
    Column("epsilon", Float, nullable=False),
    Column("delta", Float, nullable=False),
    Column("rule", String(10), nullable=False),  # "open" until the first run, then "renyi" or "sum", for ever
    Column("held", Text, nullable=False),  # what is committed or reserved, composed (JSON)
    Column("entries", Integer, nullable=False),
    Column("head", String(64), nullable=False),  # hash of the last entry
    UniqueConstraint("name", "unit", "neighbours", "observer"),
)

runs = Table(
    "taskveil_runs",
    metadata,
    Column("run", String(40), primary_key=True),
    Column("account", ForeignKey("taskveil_accounts.id"), primary_key=True),  # a run stands in every account it reaches
    Column("delta", Float, nullable=False),
    Column("left", Text, nullable=False),  # events reserved and not committed, with their counts (JSON)
    Column("committed", Integer, nullable=False),
    Column("finished", Integer, nullable=False),
)

entries = Table(
    "taskveil_entries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("account", ForeignKey("taskveil_accounts.id"), nullable=False, index=True),
    Column("number", Integer, nullable=False),  # 1, 2, 3 ... within the account
    Column("run", String(40), nullable=False, index=True),
    Column("kind", String(10), nullable=False),  # limit, reserve, commit, finish
    Column("release", String(200), nullable=False),  # of a commit, else empty
    Column("body", Text, nullable=False),
    Column("at", String(32), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    UniqueConstraint("account", "number"),
)
