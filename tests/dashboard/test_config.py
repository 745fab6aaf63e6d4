"""The settings that ship hold wherever the dashboard is started: they lie beside the page."""

from __future__ import annotations

import tomllib

from tests.dashboard.serving import ROOT


def test_it_serves_this_machine_only_reports_nothing_and_caps_uploads() -> None:
    settings = tomllib.loads((ROOT / "dashboard" / ".streamlit" / "config.toml").read_text("utf-8"))
    assert settings["server"]["address"] == "127.0.0.1"
    assert settings["server"]["allowedHosts"] == ["localhost", "127.0.0.1"]
    assert settings["server"]["maxUploadSize"] <= 200
    assert settings["browser"]["gatherUsageStats"] is False
    assert not (ROOT / ".streamlit").exists()  # it would only hold in this folder
