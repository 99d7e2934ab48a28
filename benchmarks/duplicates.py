"""How well near-duplicates and outliers are found, and how long it takes.

    python benchmarks/duplicates.py NAME=DATA ...        (pictures: what is found)
    python benchmarks/duplicates.py --speed DATA         (vectors: how long it takes)
    python benchmarks/duplicates.py --libraries DATA     (indices for approximate neighbours)

Each data set is a name or a path that `drpl` reads. Of 500 of its images a copy is written beside
them, in turn saved again as a JPEG, scaled, cropped by 5 % or mirrored; and 500 pairs of different
images of one class are drawn. `drpl doctor`'s search then says which pairs are copies. The copies
are of other strengths than those that it calibrates itself by.
"""

import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from PIL.Image import Resampling, Transpose
from sklearn.metrics import roc_auc_score
from torch.nn.functional import normalize

from drpl.analysis.copies import open_pictures
from drpl.analysis.duplicates import NEAREST, describe_all
from drpl.analysis.encoded import EncodedImages
from drpl.analysis.findings import look_over
from drpl.analysis.outliers import look_around
from drpl.data.dataset import Dataset
from drpl.data.images import Images
from drpl.data.readers.arrays import arrays
from drpl.data.sources import ReadOptions, load
from drpl.detection.neighbours import find_nearest, find_pairs, search_nearest, shorten
from drpl.errors import DataError
from drpl.files import read_json, write_json
from drpl.runs.execute import list_versions

OUT = Path("benchmarks/results/duplicates.json")
PAIRS, SEED = 500, 1
VECTORS, PLANTED = 100_000, 1000
REAL, SUMMED = 10_000, 16  # images that vectors are drawn from, and of these for each
THUMBNAIL = 192  # numbers of a thumbnail, which come last
STRANGERS = 0.05  # share of images of another set, for outliers

Draws = np.random.Generator


def recompress(picture: Image.Image, draws: Draws) -> Image.Image:
    content = io.BytesIO()
    picture.save(content, "JPEG", quality=int(draws.integers(40, 91)))
    return Image.open(content)


def resize(picture: Image.Image, draws: Draws) -> Image.Image:
    scale = draws.uniform(0.5, 1.5)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    return picture.resize((width, height), Resampling.LANCZOS)


def crop(picture: Image.Image, draws: Draws) -> Image.Image:
    width, height = (max(1, round(0.95 * side)) for side in picture.size)
    left = int(draws.integers(0, picture.width - width + 1))
    top = int(draws.integers(0, picture.height - height + 1))
    return picture.crop((left, top, left + width, top + height))


def mirror(picture: Image.Image, draws: Draws) -> Image.Image:
    return picture.transpose(Transpose.FLIP_LEFT_RIGHT)


KINDS = {"recompressed": recompress, "resized": resize, "cropped": crop, "mirrored": mirror}


def main() -> None:
    words = sys.argv[1:]
    new: dict[str, Any] = {}
    if words[0] == "--speed":
        new["speed"] = measure_speed(words[1])
    elif words[0] == "--libraries":
        new["libraries"] = dict(measure_libraries(words[1]))
    else:
        new["sets"], encoded = {}, {}
        for name, what in (word.split("=", 1) for word in words):
            new["sets"][name], encoded[name] = measure_copies(what)
            print(name, new["sets"][name], flush=True)
        new["outliers"] = list(measure_outliers(encoded))
    print(new)
    about = {
        "command": "python benchmarks/duplicates.py NAME=DATA ...; --speed DATA; --libraries DATA",
        "threads": torch.get_num_threads(),
        "versions": list_versions(),
    }
    before = read_json(OUT) if OUT.exists() else {}  # what another call measured stays
    write_json(OUT, before | new | about)


def measure_copies(what: str) -> tuple[dict[str, Any], Dataset]:
    """What is found of copies, and of pairs of different images."""
    train = load(what, ReadOptions(lazy=True, skip_broken=True)).train
    draws = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        pairs = write_pictures(train, root / "pictures", draws)
        began = time.monotonic()
        options = ReadOptions(features="lite0", cache=root, skip_broken=True)
        data = load(str(root / "pictures"), options)
        encoding = time.monotonic() - began
        began = time.monotonic()
        findings = look_over(data)
        seconds = time.monotonic() - began
        assert data.train.paths is not None
        names = [Path(path).name for path in data.train.paths]
        called = {frozenset(names[i] for i in pair) for pair in findings.duplicates.pairs.tolist()}
        vectors = data.train.images.load(torch.arange(len(data.train)))
    rates = {
        kind: float(np.mean([frozenset(pair) in called for pair in mine]))
        for kind, mine in pairs.items()
    }
    planted = {frozenset(pair) for kind in KINDS for pair in pairs[kind]}
    return {
        "recall": float(np.mean([pair in called for pair in planted])),
        "by kind": {kind: rates[kind] for kind in KINDS},
        "false pairs": rates["different"],
        "other pairs found": len(called - planted),
        "copies": len(planted),
        "different pairs": len(pairs["different"]),
        "calibrated": findings.summarize()["duplicates"]["recall of copies"],
        "seconds": {"encoding": round(encoding, 1), "search": round(seconds, 1)},
    }, arrays(vectors.numpy(), data.train.labels.numpy()).train


def write_pictures(train: Dataset, root: Path, draws: Draws) -> dict[str, list[tuple[str, str]]]:
    """Images and copies as files; which pairs there are of each kind, and of different images."""
    labels = train.labels.numpy()
    order = draws.permutation(len(train))
    chosen = order[np.isin(labels[order], find_large(labels))]
    pictures = list(islice(read_pictures(train.images, chosen), 2 * PAIRS))
    chosen = np.array([i for i, _ in pictures])
    pairs: dict[str, list[tuple[str, str]]] = {kind: [] for kind in (*KINDS, "different")}
    copied = set(draws.permutation(len(chosen))[:PAIRS].tolist())
    for k, (_, picture) in enumerate(pictures):
        folder = root / f"{labels[chosen[k]]:03}"
        folder.mkdir(parents=True, exist_ok=True)
        picture.convert("RGB").save(folder / f"{k}.png")
        if k in copied:
            kind = list(KINDS)[len([one for one in copied if one < k]) % len(KINDS)]
            KINDS[kind](picture.convert("RGB"), draws).save(folder / f"{k}-{kind}.png")
            pairs[kind].append((f"{k}.png", f"{k}-{kind}.png"))
    while len(pairs["different"]) < PAIRS:
        i, j = draws.integers(0, len(chosen), 2).tolist()
        if i != j and labels[chosen[i]] == labels[chosen[j]]:
            pairs["different"].append((f"{i}.png", f"{j}.png"))
    return pairs


def read_pictures(images: Images, index: NDArray[Any]) -> Iterator[tuple[int, Image.Image]]:
    """The pictures that can be read, with their numbers."""
    for i in index.tolist():
        with contextlib.suppress(DataError, OSError):
            yield i, next(open_pictures(images, torch.tensor([i])))


def find_large(labels: NDArray[Any]) -> NDArray[Any]:
    """Classes of which many images are there."""
    counts = np.bincount(labels)
    return np.flatnonzero(counts >= min(50, np.sort(counts)[-2]))


def measure_outliers(encoded: dict[str, Dataset]) -> Iterator[dict[str, Any]]:
    """AUROC of the outlier score where some images of another set got random labels."""
    for name, own in encoded.items():
        for other, strange in encoded.items():
            if other == name:
                continue
            draws = np.random.default_rng(SEED)
            x, y = (part.numpy() for part in (own.images.load(torch.arange(len(own))), own.labels))
            count = int(STRANGERS * len(own))
            rows = torch.from_numpy(draws.permutation(len(strange))[:count])
            mixed = np.concatenate([x, strange.images.load(rows).numpy()])
            labels = np.concatenate([y, draws.integers(0, y.max() + 1, count)])
            score = look_around(EncodedImages(arrays(mixed, labels))).score
            auroc = roc_auc_score(np.arange(len(mixed)) >= len(x), score)
            yield {"images": name, "strangers": other, "auroc": round(float(auroc), 4)}


def draw_vectors(what: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Vectors like those that are searched, plain and mirrored, and pairs that are planted.

    Around the mean of a class lies a random sum of what some images differ from theirs by: so the
    vectors vary as those of images do.
    """
    data = load(what, ReadOptions(features="lite0", limit=REAL))
    views, labels = describe_all(EncodedImages(data)), torch.cat([data.train.labels] * 2)
    real = torch.cat([view[: len(data.train)].float() for view in views])
    means = torch.stack([real[labels == c].mean(0) for c in range(len(data.train.classes))])
    rest, draws = real - means[labels], torch.Generator().manual_seed(SEED)
    x = means[torch.randint(len(means), (VECTORS,), generator=draws)]
    for _ in range(SUMMED):
        rows = torch.randint(len(rest), (VECTORS,), generator=draws)
        x += rest[rows] * torch.randn(VECTORS, 1, generator=draws) / SUMMED**0.5
    first, second = torch.randperm(VECTORS, generator=draws)[: 2 * PLANTED].view(2, -1)
    x[second] = x[first] + 0.3 * rest[torch.randint(len(rest), (PLANTED,), generator=draws)]
    mirrored = x.clone()
    mirrored[:, -THUMBNAIL:] = x[:, -THUMBNAIL:].view(-1, 3, 8, 8).flip(3).flatten(1)
    planted = torch.stack([first, second], 1).sort(1).values
    return normalize(x).half(), normalize(mirrored).half(), planted


def measure_speed(what: str) -> dict[str, Any]:
    """Seconds for the exact search among many vectors, in both views, and for neighbours."""
    vectors, mirrored, planted = draw_vectors(what)
    began, busy = time.monotonic(), time.process_time()
    pairs, _ = find_pairs(vectors, 0.75, NEAREST)
    find_pairs(vectors, 0.75, NEAREST, others=mirrored)
    seconds, used = time.monotonic() - began, time.process_time() - busy
    called = set(map(tuple, pairs.tolist()))
    began = time.monotonic()
    find_nearest(vectors, 20)
    return {
        "vectors": VECTORS,
        "numbers": vectors.shape[1],
        "planted": PLANTED,
        "seconds of the search": round(seconds, 1),
        "seconds of processors": round(used, 1),
        "planted pairs found": float(np.mean([tuple(pair) in called for pair in planted.tolist()])),
        "seconds of neighbours": round(time.monotonic() - began, 1),
    }


def measure_libraries(what: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Build and search time of each library that is installed, and how many neighbours it finds."""
    vectors, _, planted = draw_vectors(what)
    x = shorten(vectors).numpy()
    queries = np.random.default_rng(SEED).integers(0, VECTORS, 300)
    products = x[queries] @ x.T
    products[np.arange(len(queries)), queries] = -np.inf
    true = np.argsort(-products, 1)[:, :10]
    for name, package, search in (
        ("faiss-cpu, lists", "faiss", search_faiss),
        ("usearch, HNSW", "usearch", search_usearch),
        ("hnswlib, HNSW", "hnswlib", search_hnswlib),
    ):
        if find_spec(package) is None:
            continue
        near, build, seconds = search(x)
        hits = [np.isin(true[k], near[i]).mean() for k, i in enumerate(queries)]
        both = [j in near[i] or i in near[j] for i, j in planted.tolist()]
        yield (
            name,
            {
                "version": version({"faiss": "faiss-cpu"}.get(package, package)),
                "build": round(build, 1),
                "search": round(seconds, 1),
                "recall of 10 neighbours": round(float(np.mean(hits)), 4),
                "planted pairs found": float(np.mean(both)),
            },
        )


Found = tuple[NDArray[Any], float, float]  # neighbours, seconds to build, seconds to search


def clock(build: Callable[[], None], search: Callable[[], Any]) -> Found:
    began = time.monotonic()
    build()
    between = time.monotonic()
    near = np.asarray(search())
    return near, between - began, time.monotonic() - between


def search_faiss(x: NDArray[Any]) -> Found:
    """As drpl itself searches, which finds the lists as it goes."""
    import faiss

    faiss.omp_set_num_threads(torch.get_num_threads())
    return clock(lambda: None, lambda: search_nearest(torch.from_numpy(x), 11)[1])


def search_usearch(x: NDArray[Any]) -> Found:
    from usearch.index import Index

    threads = torch.get_num_threads()
    index = Index(ndim=x.shape[1], metric="ip", dtype="f16", expansion_add=80)
    return clock(
        lambda: index.add(np.arange(len(x)), x, threads=threads),
        lambda: index.search(x, 11, threads=threads).keys,
    )


def search_hnswlib(x: NDArray[Any]) -> Found:
    import hnswlib

    index = hnswlib.Index("ip", x.shape[1])
    index.init_index(len(x), ef_construction=80, M=16)
    index.set_num_threads(torch.get_num_threads())
    index.set_ef(64)
    return clock(lambda: index.add_items(x), lambda: index.knn_query(x, 11)[0])


if __name__ == "__main__":
    main()
