"""A key and a certificate for localhost, for two days, in one file: all servers can read both from it."""

import subprocess


def certificate(file):
    """Writes them to `file`."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-keyout", file, "-out", f"{file}.crt"], check=True, capture_output=True)
    with open(file, "ab") as both, open(f"{file}.crt", "rb") as chain:
        both.write(chain.read())
