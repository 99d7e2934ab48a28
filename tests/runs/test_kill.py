"""SIGKILL at random moments: the run that is started again ends with the same bytes."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = 20
EPOCHS = {"relabel_schedule": 12, "warmup_schedule": 4, "detect_schedule": 10, "final_schedule": 12}


def words(out: Path) -> list[str]:
    command = [sys.executable, "-m", "drpl", "train", "digits", "--noise", "uniform:0.6", "--quiet"]
    command += ["--out", str(out), "--save-every", "0", "--set", "relabel.begin=5"]
    for schedule, epochs in EPOCHS.items():
        command += ["--set", f"{schedule}.epochs={epochs}", "--set", f"{schedule}.rates=[[1, 0.1]]"]
    return command


@pytest.mark.slow
def test_twenty_kills_leave_no_trace(tmp_path: Path) -> None:
    subprocess.run(words(tmp_path / "whole"), check=True, capture_output=True)
    draws = random.Random(7)
    kills, stages = 0, set()
    while not (tmp_path / "killed" / "result.json").exists():
        running = subprocess.Popen(
            words(tmp_path / "killed"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if kills < KILLS:
            wait_for_epochs(running, tmp_path / "killed" / "history.jsonl", draws.choice([0, 1, 2]))
            time.sleep(draws.uniform(0.0, 0.6))  # anywhere in the next epoch, or between stages
            running.send_signal(signal.SIGKILL)
            kills += 1
        output, _ = running.communicate()
        stages |= {path.stem for path in (tmp_path / "killed" / "stages").glob("*.pt")}
        assert running.returncode in (0, -signal.SIGKILL), output
    assert kills == KILLS
    assert len(stages) == 5
    for name in ("model.safetensors", "samples.csv"):
        whole, killed = ((tmp_path / run / name).read_bytes() for run in ("whole", "killed"))
        assert whole == killed, name


def wait_for_epochs(running: "subprocess.Popen[bytes]", diary: Path, more: int) -> None:
    """Until that many epochs were added to the history; with none, somewhere in the start."""
    before = epochs_in(diary)
    while more and running.poll() is None and epochs_in(diary) < before + more:
        time.sleep(0.01)


def epochs_in(diary: Path) -> int:
    return len(diary.read_text().splitlines()) if diary.exists() else 0
