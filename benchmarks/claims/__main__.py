"""Judge every claim by the files under `benchmarks/results`: python -m benchmarks.claims"""

from benchmarks.claims.verdict import describe, draw_sections, draw_summary, find_all, show_verdict
from benchmarks.lookup import ROOT, Results
from drpl.files import write_atomic, write_json

RESULTS = ROOT / "benchmarks" / "results"


def main() -> None:
    found = find_all(Results())
    pairs = [pair for members in found.values() for pair in members]
    claims = [describe(claim, cases) for claim, cases in pairs]
    about = {"command": "python -m benchmarks.claims", "claims": claims}
    write_json(RESULTS / "claims.json", about)
    write_atomic(RESULTS / "claims" / "summary.md", draw_summary(found))
    write_atomic(RESULTS / "claims" / "sections.md", draw_sections(found))
    for claim, cases in pairs:
        print(f"{show_verdict(claim, cases):<40} {claim.title}")


if __name__ == "__main__":
    main()
