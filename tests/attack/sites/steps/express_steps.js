// A site on Express with two steps: a password that begins a session, and a code that the session says whose it is.
// It writes down every code that it compares. What is right begins with `right-`.
const fs = require('fs');
const express = require('express');
const session = require('express-session');

const attempts = fs.openSync(process.env.ATTEMPTS, 'a');
const app = express();
app.use(session({ secret: 'a throw-away site', resave: false, saveUninitialized: false }));
app.use(express.urlencoded({ extended: true }), express.json());

app.post('/login', (request, response) => {
  const { login, pw } = request.body || {};
  if (!String(pw).startsWith('right-')) return response.send('Login failed');
  request.session.user = login;
  response.redirect('/code');
});

app.all('/code', (request, response) => {
  const { user } = request.session;
  const { code } = { ...request.query, ...request.body };
  if (user === undefined || code === undefined) return response.send('<form method=post>');
  fs.writeSync(attempts, JSON.stringify({ user: String(user), password: String(code) }) + '\n');
  if (String(code).startsWith('right-')) return response.redirect('/home');
  response.send('Wrong code');
});

app.get('/home', (_, response) => response.send('home'));
const [host, port] = process.argv.slice(2);
app.listen(Number(port), host);
