"""Budgets that hold over runs, processes, crashes and machines. SQLAlchemy is imported only here."""

from taskveil.privacy.ledger.book import Book, LedgerAccount, open_account
from taskveil.privacy.ledger.reach import Key

__all__ = ["Book", "Key", "LedgerAccount", "open_account"]
