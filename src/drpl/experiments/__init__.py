"""Many runs: grids, who executes them, the paper's tables, studies, confusion matrices.

Each cell of a grid is an experiment of `runs`, so what was stopped goes on. It imports runs,
analysis and the report; the command line imports it.
"""
