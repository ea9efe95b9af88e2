"""A site with Flask-Security: its forms, also as JSON, the unified sign-in, a second factor and Basic.

Usage: app.py HOST PORT [MAIL PASSWORD...]; the last account has a second factor.
"""

import sys

from flask import Flask
from flask_security import Security, SQLAlchemyUserDatastore, auth_required, hash_password
from flask_security.models import fsqla_v3
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.pool import StaticPool

app = Flask(__name__)
app.config |= {
    "SECRET_KEY": "a throw-away server",
    "SQLALCHEMY_DATABASE_URI": "sqlite://",
    "SQLALCHEMY_ENGINE_OPTIONS": {"connect_args": {"check_same_thread": False}, "poolclass": StaticPool},
    "WTF_CSRF_ENABLED": False,
    "SECURITY_PASSWORD_SALT": "a throw-away server",
    "SECURITY_TOTP_SECRETS": {"1": "a throw-away server, which has no secrets"},
    "SECURITY_TOTP_ISSUER": "app.example",
    "SECURITY_POST_LOGIN_VIEW": "/inside",
    "SECURITY_REGISTERABLE": True,
    "SECURITY_SEND_REGISTER_EMAIL": False,
    "SECURITY_RECOVERABLE": True,
    "SECURITY_TWO_FACTOR": True,
    "SECURITY_TWO_FACTOR_ENABLED_METHODS": ["authenticator"],
    "SECURITY_UNIFIED_SIGNIN": True,
    "SECURITY_US_ENABLED_METHODS": ["password", "email"],
    "SECURITY_USERNAME_ENABLE": True,
}
db = SQLAlchemy(app)
fsqla_v3.FsModels.set_db_info(db)


class Role(db.Model, fsqla_v3.FsRoleMixin):
    """What Flask-Security wants a role to be."""


class User(db.Model, fsqla_v3.FsUserMixin):
    """What Flask-Security wants an account to be."""


security = Security(app, SQLAlchemyUserDatastore(db, User, Role))


@app.get("/inside")
@auth_required("session")
def inside():
    """A page for people who are signed in."""
    return "inside"


@app.get("/by-basic")
@auth_required("basic")
def by_basic():
    """A page for programs."""
    return "inside"


def main(host, port, *people):
    """Makes the accounts and answers."""
    with app.app_context():
        db.create_all()
        for mail, password in zip(people[::2], people[1::2]):
            user = security.datastore.create_user(email=mail, username=mail.split("@")[0], password=hash_password(password))
        secret = security._totp_factory.generate_totp_secret()
        security.datastore.tf_set(user, "authenticator", totp_secret=secret)
        db.session.commit()
    app.run(host, int(port), threaded=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
