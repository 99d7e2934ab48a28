"""One module for each source of images: a folder, a list, arrays, a public data set.

May import the rest of `data` and the ground. Others reach the readers through `data.sources.load`
and import them directly only for what `drpl` offers by name.
"""
