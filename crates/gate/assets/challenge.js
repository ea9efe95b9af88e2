"use strict";
{
const form = document.getElementById("tollgate-challenge"), challenge = form.dataset.challenge, bits = challenge.split("-")[1];
const K = [], H = [], M = new Int32Array(16), W = new Int32Array(64);
for (let n = 2; K.length < 64; n++) {
  let prime = true;
  for (let d = 2; d * d <= n; d++) prime = prime && n % d;
  const fraction = (x) => (x % 1) * 2 ** 32 | 0;
  if (prime && H.length < 8) H.push(fraction(Math.sqrt(n)));
  if (prime) K.push(fraction(Math.cbrt(n)));
}
const put = (at, code) => { M[at >> 2] |= code << 24 - at % 4 * 8; };
// The first word of SHA-256 of the block in M.
const hash = () => {
  let a = H[0], b = H[1], c = H[2], d = H[3], e = H[4], f = H[5], g = H[6], h = H[7];
  for (let i = 0; i < 64; i++) {
    if (i < 16) W[i] = M[i];
    else {
      const x = W[i - 15], y = W[i - 2];
      W[i] = W[i - 16] + W[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) + ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
    }
    const s = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (e & f ^ ~e & g) + K[i] + W[i] | 0;
    const t = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b ^ a & c ^ b & c) | 0;
    h = g; g = f; f = e; e = d + s | 0; d = c; c = b; b = a; a = s + t | 0;
  }
  return a + H[0] | 0;
};
const isProof = (text) => {
  M.fill(0);
  for (let i = 0; i < text.length; i++) put(i, text.charCodeAt(i));
  put(text.length, 128);
  M[15] = text.length * 8;
  return Math.clz32(hash()) >= bits;
};
const [button, bar, told] = ["button", "progress", "output"].map((name) => form.querySelector(name));
const pause = document.getElementById("tollgate-pause");
let number = 0;
const work = () => {
  for (const end = Date.now() + 40; Date.now() < end;) {
    for (let i = 0; i < 500; i++) {
      const proof = challenge + "-" + ++number;
      if (isProof(proof)) return send(proof);
    }
  }
  bar.value = 1 - Math.exp(-number / 2 ** bits);
  setTimeout(work);
};
const send = (proof) => {
  const others = location.search.slice(1).split("&").filter((pair) => pair && !pair.startsWith("tollgate-proof="));
  form.action = "?" + [...others, "tollgate-proof=" + proof].join("&");
  form.submit();
};
form.hidden = false;
if (pause) pause.hidden = true;
form.onsubmit = () => {
  if (bar.hidden) {
    // Not `disabled`: the button keeps the focus. The text is set now, because only a change is announced.
    button.setAttribute("aria-disabled", "true");
    bar.hidden = false;
    told.textContent = told.dataset.text;
    setTimeout(work);
  }
  return false;
};
}
