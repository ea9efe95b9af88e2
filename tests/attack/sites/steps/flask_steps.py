"""A site on Flask with two steps: a password that begins a session, and a code that the session says whose it is.

It writes down every code that it compares. What is right begins with `right-`.
"""

import json
import os

from flask import Flask, redirect, request, session

app = Flask(__name__)
app.secret_key = "a throw-away site"
attempts = os.open(os.environ["ATTEMPTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


@app.route("/login", methods=["GET", "POST"])
def login():
    """The password."""
    if not request.form.get("pw", "").startswith("right-"):
        return "Login failed"
    session["user"] = request.form["login"]
    return redirect("/code")


@app.route("/code", methods=["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def code():
    """The code, from the body or the query."""
    if "user" not in session or "code" not in request.values:
        return "<form method=post>"
    said = {"user": session["user"], "password": request.values["code"]}
    os.write(attempts, (json.dumps(said) + "\n").encode())
    return redirect("/home") if said["password"].startswith("right-") else "Wrong code"


@app.route("/home")
def home():
    """What a right code leads to."""
    return "home"
