"""What papers print, line by line: `variant="paper"`. To reproduce their figures and to show what is wrong with their claims.

One file per paper. A sound method names the printed one in its `forms`, and `Method.under` takes it from there. Nothing else in
the package knows that two forms exist. Where a printed privacy claim is false, the certificate says so (docs/refuted-claims.md).
"""
