"""One file a method: its `Config`, its stages, and `train(run, config)`.

Nothing else lives here; METHODS in the registry names them. A method imports runs, training,
detection, and stages of its siblings; only the registry and cleaning know of methods.
"""
