"""Who does many independent tasks: processes of this machine (joblib), or a cluster (Ray).

An engine gives back what its tasks returned, in the order in which they end. A task that was lost
with its process gives nothing; whoever asked for it notices that.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar

from drpl.errors import ConfigError

Task = TypeVar("Task")
Answer = TypeVar("Answer")

RETRIES = 3  # of a task whose process was killed


def local(
    work: Callable[[Task], Answer], tasks: Sequence[Task], jobs: int, threads: int
) -> Iterator[Answer]:
    """Tasks in processes of this machine, `jobs` at once; a single one stays in this process."""
    if jobs == 1:
        yield from map(work, tasks)
        return
    from joblib import Parallel, delayed, parallel_config
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=threads):
        answers = Parallel(return_as="generator_unordered", batch_size=1)(
            delayed(work)(task) for task in tasks
        )
        with suppress(TerminatedWorkerError):
            yield from answers


def ray(
    work: Callable[[Task], Answer], tasks: Sequence[Task], jobs: int, threads: int
) -> Iterator[Answer]:
    """Tasks on the cluster at RAY_ADDRESS, or on a local one; lost ones are begun again elsewhere.

    Each takes `threads` cores, and a GPU where there are any. The working folder is shared.
    """
    try:
        import ray
    except ImportError:
        raise ConfigError(
            "the engine ray needs a package that is not here: pip install 'drpl[ray]'"
        ) from None
    address = os.environ.get("RAY_ADDRESS")
    size = {} if address else {"num_cpus": jobs * threads, "include_dashboard": False}
    ray.init(address or "local", log_to_driver=False, logging_level="error", **size)
    home = os.getcwd()  # noqa: PTH109
    variables = {name: value for name, value in os.environ.items() if name.startswith("DRPL_")}

    def there(work: Callable[[Task], Answer], task: Task) -> Answer:
        os.chdir(home)  # so that relative paths mean the same everywhere
        os.environ.update(variables)
        return work(task)

    gpus = 1 if ray.cluster_resources().get("GPU") else 0
    remote = ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=RETRIES)(there)
    shared = ray.put(work)  # sent once, whatever data it holds
    try:
        waiting = [remote.remote(shared, task) for task in tasks]
        while waiting:
            (ended,), waiting = ray.wait(waiting, num_returns=1)
            with suppress(ray.exceptions.RayError):
                yield ray.get(ended)
    finally:
        ray.shutdown()


ENGINES = {"local": local, "ray": ray}
