"""A site with nothing but the admin. `prepare USER PASSWORD...` makes its tables and accounts."""

import os
import sys

from django.conf import settings
from django.core.management import call_command, execute_from_command_line
from django.urls import path

urlpatterns = []

settings.configure(
    ALLOWED_HOSTS=["*"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["APP_DATABASE"]}},
    DEBUG=False,
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    INSTALLED_APPS=[f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages")],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    ROOT_URLCONF=__name__,
    SECRET_KEY="a throw-away site",
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
)


def prepare(pairs):
    """Tables, and an administrator for each name and password."""
    call_command("migrate", verbosity=0)
    from django.contrib.auth import get_user_model

    for user, password in zip(pairs[::2], pairs[1::2]):
        get_user_model().objects.create_superuser(user, f"{user}@example.org", password)


if "APP_ATTEMPTS" in os.environ:
    settings.AUTHENTICATION_BACKENDS = ["attempts.Recorder", *settings.AUTHENTICATION_BACKENDS]
    # Thousands of attempts are made, and how slowly a password is compared is not what is tried.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

import django

django.setup()

from django.contrib import admin

urlpatterns.append(path("admin/", admin.site.urls))

if __name__ != "__main__":
    from django.core.wsgi import get_wsgi_application

    application = get_wsgi_application()
elif sys.argv[1] == "prepare":
    prepare(sys.argv[2:])
else:
    execute_from_command_line(sys.argv)
