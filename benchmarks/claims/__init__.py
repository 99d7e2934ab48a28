"""Every claim of the paper, and ours, with the evidence beside it.

    python -m benchmarks.claims         judge all by what is in benchmarks/results
    python benchmarks/pages.py          put the answers into docs/claims.md

`listing.py` has the claims, `cases.py` says what a case is, and the modules of the groups find the
cases of each claim in the result files. When these change, so do the verdicts.
"""
