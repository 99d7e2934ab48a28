"""Labels and decisions in the formats of other tools, out and back: one file a format.

It may import `cleaning.folder`, `cleaning.links`, `cleaning.reliability`, `cleaning.review`,
`data.decoding` and the ground, and finds the formats by the registry. `cleaning` and `cli` import
it.
"""
