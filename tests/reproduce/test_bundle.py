"""A run in one file, verified where the run folder is not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from clframe.cli.main import main
from clframe.errors import RunFolderError
from clframe.reproduce.bundle import opened, pack
from clframe.reproduce.verify import verify


def test_a_bundle_is_verified_like_its_run(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.zip"
    assert main(["bundle", str(run), "--experiences", "2", "--out", str(out)]) == 0
    names = zipfile.ZipFile(out).namelist()
    assert sum(name.endswith(".pt") for name in names) == 3  # before, after, the end
    capsys.readouterr()
    assert main(["verify", str(out), "--experience", "2"]) == 0
    assert "experience 2 (exp1): learned again" in capsys.readouterr().out
    assert main(["verify", str(out), "--experience", "1"]) == 2
    assert "not kept the states before and after experience 1" in capsys.readouterr().err
    assert main(["bundle", str(run), "--out", str(out)]) == 2
    assert "already exists" in capsys.readouterr().err


def test_a_changed_bundle_is_found(run: Path, tmp_path: Path) -> None:
    whole, forged = tmp_path / "whole.zip", tmp_path / "forged.zip"
    assert pack(run, whole) == [3]
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(forged, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(
                name, content.replace(b"0.", b"0.9", 1) if "results" in name else content
            )
    with opened(forged) as folder:
        bad = [finding.what for finding in verify(folder) if not finding.good]
    assert "files" in bad


@pytest.mark.parametrize("name", ["../out", "checkpoints/../../x.pt", "/etc/x", "run.py"])
def test_only_what_belongs_to_a_bundle_is_unpacked(tmp_path: Path, name: str) -> None:
    path = tmp_path / "bad.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(RunFolderError, match="is not a bundle: it holds"), opened(path):
        pass


def test_no_archive_at_all(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "text.zip"
    path.write_text("hello")
    with pytest.raises(RunFolderError, match="not a bundle, or is damaged"), opened(path):
        pass
    cut = tmp_path / "cut.zip"
    pack(run, tmp_path / "whole.zip", [1])
    cut.write_bytes((tmp_path / "whole.zip").read_bytes()[:-200])
    with pytest.raises(RunFolderError, match="not a bundle, or is damaged"), opened(cut):
        pass


def test_a_table_of_verified_bundles_only(
    run: Path, copy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles = tmp_path / "bundles"
    bundles.mkdir()
    pack(run, bundles / "good.zip")
    capsys.readouterr()
    assert main(["compare", str(bundles), "--verified"]) == 0
    printed = capsys.readouterr()
    assert "ewc+replay" in printed.out
    assert f"verified {bundles / 'good.zip'}" in printed.err
    config = copy / "config.yaml"
    config.write_text(config.read_text().replace("max_epochs: 1", "max_epochs: 2"))
    (copy / "SHA256SUMS").unlink()
    assert main(["compare", str(bundles), str(copy)]) == 0  # nobody asked
    capsys.readouterr()
    assert main(["compare", str(bundles), str(copy), "--verified"]) == 2
    refused = capsys.readouterr()
    assert f"'{copy}' is not as recorded" in refused.err
    assert not refused.out
