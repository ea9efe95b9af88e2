"""A site with django-allauth: its forms, its headless API, the second factor, passkeys, device codes and codes by mail.

Usage: manage.py prepare NAME PASSWORD MAIL [NAME PASSWORD MAIL...]; manage.py runserver ADDRESS
$APP_DATABASE is the file of its tables, beside it passkey.pem.
"""

import os
import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import execute_from_command_line

APPS = ("contrib.auth", "contrib.contenttypes", "contrib.sessions", "contrib.messages")
MIDDLEWARE = (
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "allauth.account.middleware.AccountMiddleware",
)

settings.configure(
    SECRET_KEY="a throw-away server",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["APP_DATABASE"]}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=[f"django.{app}" for app in APPS]
    + ["allauth", "allauth.account", "allauth.mfa", "allauth.headless", "allauth.usersessions", "allauth.idp.oidc"]
    + ["allauth.socialaccount", "allauth.socialaccount.providers.google"],
    MIDDLEWARE=MIDDLEWARE,
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    AUTHENTICATION_BACKENDS=["allauth.account.auth_backends.AuthenticationBackend"],
    EMAIL_BACKEND="django.core.mail.backends.console.EmailBackend",
    LOGIN_REDIRECT_URL="/accounts/email/",
    ACCOUNT_LOGIN_METHODS={"username", "email"},
    ACCOUNT_EMAIL_VERIFICATION="none",
    ACCOUNT_LOGIN_BY_CODE_ENABLED=True,
    ACCOUNT_RATE_LIMITS=False,  # every answer is about a password
    IDP_OIDC_RATE_LIMITS=False,
    SOCIALACCOUNT_PROVIDERS={"google": {"APPS": [{"client_id": "a", "secret": "b"}]}},
    MFA_SUPPORTED_TYPES=["totp", "webauthn", "recovery_codes"],
    MFA_PASSKEY_LOGIN_ENABLED=True,
    MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN=True,
)
django.setup()

from django.urls import include, path  # noqa: E402

urlpatterns = [
    path("accounts/", include("allauth.urls")),
    path("_allauth/", include("allauth.headless.urls")),
    path("", include("allauth.idp.urls")),
]


def prepare(words):
    """Tables, a device and accounts; the last one has a second factor, the one before it a passkey."""
    from allauth.idp.oidc.models import Client
    from allauth.account.models import EmailAddress
    from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
    from django.contrib.auth.models import User

    execute_from_command_line(["manage.py", "migrate", "--verbosity", "0"])
    Client.objects.create(id="tv", name="A screen", type="public", grant_types=Client.GrantType.DEVICE_CODE)
    users = []
    for name, password, mail in zip(words[::3], words[1::3], words[2::3]):
        user = User.objects.create_user(name, mail, password)
        EmailAddress.objects.create(user=user, email=mail, verified=True, primary=True)
        users.append(user)
    give_passkey(users[-2])
    TOTP.activate(users[-1], generate_totp_secret())


def give_passkey(user):
    """A key that a browser would have made; its secret is left in a file, its name is 32 times `k`."""
    from allauth.mfa.webauthn.internal.auth import WebAuthn
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from fido2.cose import ES256
    from fido2.utils import sha256, websafe_encode
    from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData

    key, name = ec.generate_private_key(ec.SECP256R1()), b"k" * 32
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    Path(os.environ["APP_DATABASE"]).with_name("passkey.pem").write_bytes(key.private_bytes(*form))
    public = AttestedCredentialData.create(bytes(16), name, ES256.from_cryptography_key(key.public_key()))
    told = AuthenticatorData.create(sha256(b"127.0.0.1"), 0x45, 0, public)
    client = b'{"type":"webauthn.create","challenge":"","origin":"http://127.0.0.1"}'
    response = {"attestationObject": AttestationObject.create("none", told, {}), "clientDataJSON": client}
    response = {field: websafe_encode(bytes(value)) for field, value in response.items()}
    credential = {"id": websafe_encode(name), "rawId": websafe_encode(name), "type": "public-key", "response": response}
    WebAuthn.add(user, "key", credential | {"clientExtensionResults": {"credProps": {"rk": True}}})


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2:])
    else:
        execute_from_command_line(sys.argv)
