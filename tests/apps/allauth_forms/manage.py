"""A site with django-allauth: its forms, its headless API, the second factor and codes by mail.

Usage: manage.py prepare NAME PASSWORD MAIL [NAME PASSWORD MAIL...]; manage.py runserver ADDRESS
$APP_DATABASE is the file of its tables.
"""

import os
import sys

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
    + ["allauth", "allauth.account", "allauth.mfa", "allauth.headless", "allauth.usersessions"],
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
)
django.setup()

from django.urls import include, path  # noqa: E402

urlpatterns = [path("accounts/", include("allauth.urls")), path("_allauth/", include("allauth.headless.urls"))]


def prepare(words):
    """Tables and accounts; the last one has a second factor."""
    from allauth.account.models import EmailAddress
    from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
    from django.contrib.auth.models import User

    execute_from_command_line(["manage.py", "migrate", "--verbosity", "0"])
    for name, password, mail in zip(words[::3], words[1::3], words[2::3]):
        user = User.objects.create_user(name, mail, password)
        EmailAddress.objects.create(user=user, email=mail, verified=True, primary=True)
    TOTP.activate(user, generate_totp_secret())


if __name__ == "__main__":
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2:])
    else:
        execute_from_command_line(sys.argv)
