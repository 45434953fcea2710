"""Tables of other libraries: a polars DataFrame and an Arrow table become what a csv file becomes, a pandas DataFrame.

Columns of a pandas DataFrame may be called by numbers, dates or several words; a file knows texts alone, and so do models.
"""

from __future__ import annotations

from typing import Any

from taskveil.errors import EnvironmentMissing


def as_pandas(table: Any) -> Any:
    """A pandas DataFrame of a table that can make one of itself; anything else as it is."""
    if hasattr(table, "collect_schema") and hasattr(table, "lazy") and not hasattr(table, "to_pandas"):
        table = table.collect()  # a LazyFrame of polars
    if hasattr(table, "iloc") or not hasattr(table, "to_pandas"):
        return table
    try:
        return table.to_pandas()
    except ImportError:
        library = type(table).__module__.split(".")[0]
        remedy = "install it with: pip install 'taskveil[parquet]'"
        raise EnvironmentMissing(f"a {library} table is read through pyarrow; {remedy}") from None


def with_index(table: Any, *asked: Any) -> Any:
    """A pandas DataFrame in which a level of the index that is asked for by name is a column, as in a table that was written."""
    levels = [name for name in table.index.names if name is not None and name in asked and name not in table.columns]
    return table.reset_index(levels) if levels else table


def with_text_names(table: Any) -> Any:
    """A pandas DataFrame whose columns are called by texts, as in a file; without a copy of its cells."""
    if all(isinstance(c, str) for c in table.columns):
        return table
    return table.set_axis([c if isinstance(c, str) else str(c) for c in table.columns], axis=1)
