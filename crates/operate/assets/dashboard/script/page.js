"use strict";
// The page of a running gate. It asks the admin API and shows the answers; every text is set as text, never as markup.

const $ = id => document.getElementById(id);

// An element with attributes and children. Values that are null or undefined are left out.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null && child !== undefined));
  return element;
}

const say = text => make("span", { class: "say" }, text);
const pill = (kind, text) => make("span", { class: `pill ${kind}` }, text);

// A button whose name begins with the text on it, so that people who speak to their computer can press it.
const button = (text, more, onclick) => make("button", { type: "button", "aria-label": `${text} ${more}`, onclick }, text);

// A screen that is touched keeps the last button hovered.
const canHover = matchMedia("(hover: hover)");

// Whether people are about to use a button in there: it must not move under the pointer or behind a question.
const inUse = element => $("ask").open || (canHover.matches && !isForced && Boolean(element.querySelector("button:hover")));

// Screen readers read a text again whenever it is set.
function tell(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Replaces what is in an element. The button with the same name has the focus again.
function fill(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
  element.replaceChildren(...children);
  if (focused === null) return;
  const same = [...element.querySelectorAll("[aria-label]")].find(one => one.getAttribute("aria-label") === focused);
  if (same) same.focus({ preventScroll: true });
}

// A bar from left to right, of which `share` is filled.
function track(share, kind = "") {
  const bar = make("i");
  bar.style.transform = `scaleX(${share})`;
  return make("span", { class: `track ${kind}` }, bar);
}

// ---- numbers and times as people read them

const whole = number => Math.round(number).toLocaleString("en");
const counted = (number, one, many) => `${whole(number)} ${number === 1 ? one : many}`;

function duration(seconds) {
  if (seconds < 90) return `${Math.ceil(seconds)} s`;
  if (seconds < 5400) return `${Math.ceil(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.ceil(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

const clock = (time, parts = {}) =>
  new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", ...parts });
const day = time => new Date(time).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric" });

// As "14:32, in 54 min", with the day if it is another one.
function end(time) {
  const left = (Date.parse(time) - Date.now()) / 1000;
  const date = day(time) === day(Date.now()) ? "" : `${day(time)}, `;
  return `${date}${clock(time)}, ${left > 0 ? `in ${duration(left)}` : "now"}`;
}
