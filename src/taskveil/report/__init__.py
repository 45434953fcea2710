"""One self-contained page about a run. Reads records, computes nothing private, releases nothing.

write_report(estimator, folder)       page of a fitted estimator, beside its saved files
write_comparison(result, folder)      page of a comparison
report_folder(folder, audience)       page of what is already in a folder: for everybody entitled, one owner, or the public
"""

from taskveil.report.write import report_folder, write_comparison, write_report

__all__ = ["report_folder", "write_comparison", "write_report"]
