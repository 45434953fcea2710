"""Tables of other libraries: a polars DataFrame and an Arrow table become what a csv file becomes, a pandas DataFrame."""

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
