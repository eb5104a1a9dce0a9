"""What the adapters share."""

import ssl
from pathlib import Path

import pytest

from compact.models.providers.clients import certificates


def test_certificates_are_read_once_and_anew_where_others_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    usual = certificates("httpx")
    assert certificates("httpx") is usual
    named = tmp_path / "own.pem"
    named.write_text(ssl.DER_cert_to_PEM_cert(usual.get_ca_certs(binary_form=True)[0]))
    monkeypatch.setenv("SSL_CERT_FILE", str(named))
    assert len(certificates("httpx").get_ca_certs()) == 1
