// A site on Express: a form, one that takes its fields from anywhere, an API of JSON, and a page behind Basic.
// It writes down every password that it compares. A right one begins with `right-`.
const fs = require('fs');
const express = require('express');
const multer = require('multer');
const cookies = require('cookie-parser');

const attempts = fs.openSync(process.env.ATTEMPTS, 'a');
const isRight = (user, password) => {
  fs.writeSync(attempts, JSON.stringify({ user: String(user), password: String(password) }) + '\n');
  return String(password).startsWith('right-');
};

const app = express();
app.set('query parser', 'extended');
app.use(cookies());
app.use(express.urlencoded({ extended: true, limit: '2mb' }), express.json({ limit: '2mb' }), multer().any());

app.post('/login', (request, response) => {
  const { login, pw, note = '' } = request.body || {};
  if (pw === undefined) return response.send('<form method=post>');
  if (isRight(login, pw)) return response.cookie('SESSION', 'inside').redirect('/home');
  response.send(`<p>${note}</p><p>Login failed</p>`);
});

app.all('/any', (request, response) => {
  const { login, pw, next = '' } = { ...request.cookies, ...request.query, ...request.body };
  if (pw === undefined) return response.send('<form method=post>');
  response.redirect(isRight(login, pw) ? '/home' : `/any?error=1&next=${encodeURIComponent(next)}`);
});

app.all('/api/session', (request, response) => {
  const { login, pw } = request.body || {};
  if (pw === undefined) return response.status(400).json({ error: 'no password' });
  if (isRight(login, pw)) return response.json({ token: 'inside' });
  response.status(401).json({ error: 'wrong password' });
});

app.all('/basic', (request, response) => {
  const [scheme, token = ''] = (request.headers.authorization || '').split(' ');
  const [user, ...rest] = Buffer.from(token, 'base64').toString().split(':');
  if (scheme.toLowerCase() === 'basic' && isRight(user, rest.join(':'))) return response.send('inside');
  response.set('WWW-Authenticate', 'Basic realm="site"').status(401).send('outside');
});

app.get('/home', (_, response) => response.send('home'));
const [host, port] = process.argv.slice(2);
app.listen(Number(port), host);
