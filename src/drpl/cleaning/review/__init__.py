"""The review page, with or without its server, and the log of what was decided there.

It may import `cleaning.folder`, `data.decoding` and the ground, and needs neither torch nor a run.
`cleaning` and `cli` import it.
"""
