// ---- what is wrong, in words

// What the gate reported since the page was opened: why servers do not answer, and its newest warnings.
const reported = { store: "", warnings: [] };
const KEPT_WARNINGS = 5;

// The kinds of trouble that a `warning` event may begin with.
const TROUBLE = {
  certificate_expires: "A certificate expires soon.",
  certificate_not_issued: "A certificate was not renewed.",
  sandbox_incomplete: "The sandbox is incomplete.",
};

function reportStore({ server, up, why }) {
  reported.store = up ? "" : `${server ? `${server}: ` : ""}${why}`;
}

function reportWarning({ text }) {
  // The store has its own line as long as it does not answer.
  if (/^store_(down|up) /.test(text)) return;
  const [, kind, rest] = text.match(/^(\w+) (.*)$/s) || [];
  const title = TROUBLE[kind];
  const warning = { title: title || "Warning.", text: title ? rest : text, time: Date.now() };
  reported.warnings = [warning, ...reported.warnings.filter(other => other.text !== warning.text)].slice(0, KEPT_WARNINGS);
}

const notice = (kind, title, text) => ({ kind, title, text });

function storeTrouble({ store }) {
  if (store.up) return [];
  const why = reported.store ? ` (${reported.store})` : "";
  return [notice("bad", "The store does not answer.", `${store.url}${why}. Until it does, on_error decides about attempts.`)];
}

function upstreamTrouble({ upstreams }) {
  const down = upstreams.filter(one => !one.up).map(one => one.upstream);
  if (down.length === 0) return [];
  if (down.length === upstreams.length) return [notice("bad", "No upstream answers.", `${down.join(", ")}: visitors see an error.`)];
  return [notice("", down.length === 1 ? "An upstream does not answer." : "Upstreams do not answer.",
    `${down.join(", ")}: requests go to the others.`)];
}

function certificateTrouble() {
  const bad = certificates.filter(one => daysLeft(one) < SOON);
  return bad.map(one => notice(daysLeft(one) < 0 ? "bad" : "", daysLeft(one) < 0 ? "A certificate has expired." : "A certificate expires soon.",
    `${one.name}: ${certificateWords(one)}. Renew it, then reload the gate.`));
}

function modeNotices(status) {
  const observing = status.mode === "observe" ? [notice("", "Observing.", "All limits only observe: no attempt is refused.")] : [];
  const attacks = (status.attacks || []).map(route => notice("bad", "Under attack.", `Route ${route}: limits of unknown clients are stricter.`));
  return [...observing, ...attacks];
}

function noticeLine({ kind, title, text, time }) {
  return make("p", { class: `notice ${kind || ""}` }, make("strong", {}, title), text, time ? say(` ${clock(time)}`) : null);
}

let noticesShown = "";
function showNotices(status) {
  const all = [...storeTrouble(status), ...upstreamTrouble(status), ...certificateTrouble(), ...modeNotices(status),
    ...(status.warnings || []).map(text => notice("", "Check this.", text))];
  const known = all.map(one => one.text);
  all.push(...reported.warnings.filter(one => !known.includes(one.text)));
  // Screen readers read an alert again when it is replaced.
  const text = JSON.stringify(all);
  if (text === noticesShown) return;
  noticesShown = text;
  $("notices").replaceChildren(...all.map(noticeLine));
}
