"""A site on Flask: a form, one that does not care where its fields come from, an API of JSON, and a page behind Basic.

It writes down every password that it compares. A right one begins with `right-`.
"""

import json
import os

from flask import Flask, jsonify, make_response, redirect, request

app = Flask(__name__)
attempts = os.open(os.environ["ATTEMPTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def is_right(user, password):
    """Compares, and says so."""
    os.write(attempts, (json.dumps({"user": str(user), "password": str(password)}) + "\n").encode())
    return str(password).startswith("right-")


@app.route("/login", methods=["GET", "POST"])
def login():
    """Fields of the body."""
    if "pw" not in request.form:
        return "<form method=post>"
    if is_right(request.form.get("login"), request.form["pw"]):
        answer = redirect("/home")
        answer.set_cookie("SESSION", "inside")
        return answer
    page = make_response(f"<p>{request.form.get('note', '')}</p><p>Login failed</p>")
    return page.make_conditional(request, accept_ranges=True, complete_length=page.content_length)


@app.route("/any", methods=["GET", "POST", "PUT"])
def login_from_anywhere():
    """Fields of the body or the query."""
    if "pw" not in request.values:
        return "<form method=post>"
    if is_right(request.values.get("login"), request.values["pw"]):
        return redirect("/home")
    return redirect(f"/any?error=1&next={request.values.get('next', '')}")


@app.route("/api/session", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"])
def session():
    """JSON, whatever its type."""
    given = request.get_json(force=True, silent=True)
    if not isinstance(given, dict) or "pw" not in given:
        return jsonify(error="no password"), 400
    if is_right(given.get("login"), given["pw"]):
        return jsonify(token="inside")
    return jsonify(error="wrong password"), 401


@app.route("/basic", methods=["GET", "POST", "PUT", "PROPFIND", "OPTIONS"])
def basic():
    """A page behind Basic, open to every method."""
    given = request.authorization
    if given and given.type == "basic" and is_right(given.username, given.password):
        return "inside"
    return "outside", 401, {"WWW-Authenticate": 'Basic realm="site"'}


@app.route("/home")
def home():
    """What a right password leads to."""
    return "home"
