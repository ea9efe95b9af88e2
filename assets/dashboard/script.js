"use strict";
// The page of a running gate. It asks the admin API and shows the answers; every text is set as text, never as markup.

const API = location.origin + "/api/v1/";
const $ = id => document.getElementById(id);
const shown = { by: "refused", minutes: 10, span: 10, limit: "", paused: false };
const state = { limits: [], clients: [], history: null, chart: null, decisions: [] };

// An element with text and children.
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

// Numbers as people read them.
const whole = number => Math.round(number).toLocaleString("en");
function seconds(time) {
  if (time === null || time === undefined) return "an operator";
  if (time < 90) return `${Math.ceil(time)} s`;
  if (time < 5400) return `${Math.ceil(time / 60)} min`;
  return `${Math.ceil(time / 3600)} h`;
}

async function ask(path) {
  const answer = await fetch(API + path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(await problem(answer));
  return answer.json();
}

async function change(method, path, body) {
  const answer = await fetch(API + path, {
    method,
    headers: { "Content-Type": "application/json", "X-Tollgate-Request": "1" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(await problem(answer));
}

async function problem(answer) {
  try { return (await answer.json()).detail; } catch { return `${answer.status} ${answer.statusText}`; }
}

// Asks once, does it, and says what came of it.
function confirmed(title, text, label, action) {
  return () => {
    const dialog = $("ask");
    $("ask-title").textContent = title;
    $("ask-text").textContent = text;
    $("ask-yes").textContent = label;
    dialog.returnValue = "no";
    dialog.onclose = async () => {
      if (dialog.returnValue !== "yes") return;
      try { await action(); toast(`${label}: done.`); await refresh(); } catch (error) { toast(error.message); }
    };
    dialog.showModal();
  };
}

let toastEnds;
function toast(text) {
  $("toast").textContent = text;
  $("toast").classList.add("on");
  clearTimeout(toastEnds);
  toastEnds = setTimeout(() => $("toast").classList.remove("on"), 5000);
}

// ---- the gate

function showStatus(status) {
  const pill = $("state");
  pill.textContent = status.state;
  pill.className = `pill ${status.state === "running" ? "up" : "down"}`;
  const facts = [["version", status.version], ["up", seconds(status.uptime)], ["configuration", status.config.name],
    ["listening on", status.listen.join(", ")]];
  $("facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  $("tile-connections").textContent = whole(status.connections);
  const store = status.store;
  const lines = [[store.up ? "up" : "down", "store", store.url, store.up ? "answers" : "does not answer"]];
  for (const one of status.upstreams)
    lines.push([one.up ? "up" : "down", "upstream", one.upstream, one.up ? `${whole(one.requests)} in flight` : "skipped"]);
  if (status.sandbox) lines.push(["off", "sandbox", status.sandbox, ""]);
  $("health").replaceChildren(...lines.map(([mark, kind, name, say]) =>
    make("li", {}, make("span", { class: `pill ${mark}` }, kind), make("code", {}, name), make("span", { class: "say" }, say))));
  const notices = [];
  if (status.mode === "observe") notices.push(["", "Observing.", "Every limit only watches: no attempt is refused."]);
  for (const route of status.attacks || []) notices.push(["attack", "Under attack.", `Route ${route}: limits of strangers are scaled down.`]);
  for (const text of status.warnings || []) notices.push(["", "Check this.", text]);
  $("notices").replaceChildren(...notices.map(([kind, title, text]) =>
    make("p", { class: `notice ${kind}` }, make("strong", {}, title), text)));
}

// ---- attempts over time

const clock = time => new Date(time * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function chartOptions() {
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
  const line = (label, name) =>
    ({ label, stroke: colour(`--${name}`), fill: colour(`--${name}-fill`), width: 2, points: { show: false }, spanGaps: false });
  return {
    width: $("chart").clientWidth, height: 220, padding: [8, 8, 0, 0], cursor: { y: false, points: { size: 6 } }, legend: { show: false },
    scales: { y: { range: (_, low, high) => [0, Math.max(high * 1.1, 5)] } },
    axes: [{ ...axis, space: 70, values: (_, times) => times.map(clock) }, { ...axis, size: 46 }],
    series: [{}, line("admitted", "admit"), line("refused", "refuse"), line("would be refused", "observe")],
  };
}

function showHistory(history) {
  state.history = history;
  const step = history.seconds, kept = Math.round((shown.span * 60) / step);
  const perMinute = list => list.slice(-kept).map(count => (count === null ? null : (count * 60) / step));
  const count = history.admitted.length, last = history.end;
  const times = history.admitted.map((_, at) => last - (count - 1 - at) * step).slice(-kept);
  const data = [times, perMinute(history.admitted), perMinute(history.refused), perMinute(history.observed)];
  if (state.chart) state.chart.setData(data);
  else state.chart = new uPlot(chartOptions(), data, $("chart"));
  const recent = list => list.slice(-Math.round(60 / step)).reduce((sum, one) => sum + (one || 0), 0);
  const admitted = recent(history.admitted), refused = recent(history.refused), would = recent(history.observed);
  $("tile-attempts").textContent = whole(admitted + refused);
  const tile = $("tile-refused");
  tile.replaceChildren(whole(refused), would > 0 ? make("small", {}, ` ${whole(would)} observed`) : "");
  tile.parentElement.classList.toggle("some", refused > 0);
  $("chart-text").textContent = `In the last minute ${whole(admitted)} attempts were admitted and ${whole(refused)} refused.`;
}

function newChart() {
  if (state.chart) state.chart.destroy();
  state.chart = null;
  if (state.history) showHistory(state.history);
}

// ---- clients

// What an operator calls the bucket, as the API's paths do.
const keyOf = client => (client.client ? `ip:${client.client.split("/")[0]}` : null);

function tokenBar(client) {
  if (client.burst === undefined) return make("span", { class: "say" }, "–");
  const bar = make("i"), text = make("span");
  const track = make("div", { class: "track", role: "meter", "aria-label": "tokens", "aria-valuemin": 0, "aria-valuemax": client.burst }, bar);
  const asked = performance.now(), full = Math.max(0, Date.parse(client.full_at) - Date.now());
  const tick = () => {
    const passed = performance.now() - asked;
    const share = full > 0 ? Math.min(1, passed / full) : 1;
    const tokens = client.tokens + (client.burst - client.tokens) * share;
    bar.style.transform = `scaleX(${Math.max(0.02, tokens / client.burst)})`;
    track.classList.toggle("empty", tokens < 1);
    track.setAttribute("aria-valuenow", Math.floor(tokens));
    const left = Math.max(0, client.next - passed / 1000);
    text.textContent = tokens < 1 ? `next in ${seconds(left)}` : `${Math.floor(tokens)} of ${client.burst}`;
  };
  tick();
  const element = make("div", { class: "tokens" }, track, text);
  element.tick = tick;
  return element;
}

function actions(client) {
  const key = keyOf(client);
  if (!key) return make("span", { class: "say" }, "by name only");
  const path = `buckets/${encodeURIComponent(key)}`, name = client.client;
  return make("span", {},
    make("button", { type: "button", "aria-label": `Reset ${name} under ${client.limit}`, onclick: confirmed(`Reset ${name}?`,
      `Its bucket of the limit ${client.limit} becomes full again, without failures and waits.`, "Reset",
      () => change("DELETE", `${path}?limit=${encodeURIComponent(client.limit)}`)) }, "Reset"),
    make("button", { type: "button", "aria-label": `Give ${name} five tokens under ${client.limit}`, onclick: confirmed(`Give ${name} five tokens?`,
      `They go to its bucket of the limit ${client.limit}, never above its size.`, "Give five tokens",
      () => change("POST", `${path}/credit`, { tokens: 5, limit: client.limit })) }, "+5"),
    make("button", { type: "button", "aria-label": `Exempt ${name} for an hour`, onclick: confirmed(`Exempt ${name} for an hour?`,
      "No limit refuses it until then. The log says so.", "Exempt for an hour",
      () => change("PUT", `exemptions/${encodeURIComponent(name)}`, { for: "1h", why: "dashboard" })) }, "Exempt"));
}

function clientRow(client) {
  const who = client.client ? make("code", {}, client.client) : make("span", {}, "account ", make("code", {}, client.account));
  const bar = tokenBar(client);
  const row = make("tr", {},
    make("td", {}, who),
    make("td", {}, client.limit),
    make("td", { class: "number" }, whole(client.attempts)),
    make("td", { class: `number ${client.refused > 0 ? "hot" : ""}` }, whole(client.refused)),
    make("td", {}, bar),
    make("td", { class: "acts" }, actions(client)));
  row.tick = bar.tick;
  return row;
}

function showClients({ clients }) {
  // A button that has the focus must not go away under the hand that uses it.
  if ($("client-rows").contains(document.activeElement) || $("ask").open) return;
  state.clients = clients.map(clientRow);
  $("client-rows").replaceChildren(...state.clients);
  $("no-clients").hidden = clients.length > 0;
}

// ---- limits and routes

function compareRow(name, decisions) {
  const refused = decisions.refuse + decisions.observe, all = refused + decisions.admit;
  const bar = make("i");
  bar.style.transform = `scaleX(${all > 0 ? refused / all : 0})`;
  return [make("b", {}, name), make("div", { class: "track" }, bar), make("span", { class: "number" }, `${whole(refused)} refused`),
    make("span", { class: "number say" }, `of ${whole(all)}`)];
}

function limitCard(limit, candidate) {
  const other = limit.mode === "observe" ? "enforce" : "observe";
  const switching = make("button", { type: "button", "aria-label": `Set ${limit.name} to ${other}`,
    onclick: confirmed(`Set ${limit.name} to ${other}?`,
      other === "observe" ? "It goes on counting, and refuses no attempt until the next reload." : "It refuses attempts again until the next reload.",
      `Set to ${other}`, () => change("PUT", `limits/${encodeURIComponent(limit.name)}/mode`, { mode: other })) }, `Set to ${other}`);
  return make("div", { class: "limit" },
    make("div", { class: "head" }, make("strong", {}, limit.name), make("span", { class: `pill ${limit.mode}` }, limit.mode),
      limit.mode === "off" ? null : switching),
    make("p", { class: "say" }, `${limit.spec} by ${limit.key}; ${whole(limit.buckets)} buckets in use`),
    make("div", { class: "compare" }, ...compareRow("live", limit.decisions), ...(candidate ? compareRow("candidate", candidate.decisions) : [])));
}

function showLimits({ limits }) {
  const live = limits.filter(limit => !limit.candidate_of);
  const candidateOf = limit => limits.find(other => other.candidate_of === limit.name);
  if (!$("limits").contains(document.activeElement) && !$("ask").open)
    $("limits").replaceChildren(...live.map(limit => limitCard(limit, candidateOf(limit))));
  const names = live.map(limit => limit.name).join("\n");
  if (names !== state.limits) {
    state.limits = names;
    $("filter").replaceChildren(make("option", { value: "" }, "all"), ...live.map(limit => make("option", { value: limit.name }, limit.name)));
    $("filter").value = shown.limit;
  }
}

function showRoutes({ routes }) {
  let successes = 0, judged = 0;
  $("routes").replaceChildren(...routes.map(route => {
    const { success, failure, neutral, error } = route.outcomes;
    successes += success; judged += success + failure;
    const all = success + failure + neutral + error;
    const part = (kind, count) => {
      const bar = make("i", { class: kind });
      bar.style.width = `${all > 0 ? (count / all) * 100 : 0}%`;
      return bar;
    };
    return make("div", { class: "limit" },
      make("div", { class: "head" }, make("strong", {}, route.name), make("span", { class: "say" }, `${whole(all)} admitted`)),
      make("div", { class: "split" }, part("success", success), part("failure", failure), part("neutral", neutral), part("error", error)),
      make("p", { class: "say" }, `${whole(success)} succeeded, ${whole(failure)} failed, ${whole(neutral)} neutral, ${whole(error)} errors`));
  }));
  $("tile-success").replaceChildren(judged > 0 ? `${Math.round((successes / judged) * 100)}` : "–", judged > 0 ? make("small", {}, " %") : "");
}

// ---- decisions as they happen

function showDecision(decision) {
  if (shown.paused || ($("only-refused").checked && !["refuse", "observe"].includes(decision.verdict))) return;
  const list = $("decisions");
  const outcome = decision.outcome ? `, ${decision.outcome}` : "";
  const say = decision.verdict === "refuse" || decision.verdict === "observe"
    ? `wait ${seconds(decision.wait)}` : `${decision.left} left${outcome}`;
  list.prepend(make("li", {},
    make("time", { datetime: decision.time }, new Date(decision.time).toLocaleTimeString("en-GB")),
    make("span", { class: `verdict ${decision.verdict}` }, decision.verdict),
    make("span", {}, make("code", {}, decision.client), ` ${decision.limit}`),
    make("span", { class: "say" }, say)));
  while (list.children.length > 100) list.lastChild.remove();
  $("no-decisions").hidden = true;
}

function listen() {
  const events = new EventSource(API + "events");
  events.addEventListener("decision", event => showDecision(JSON.parse(event.data)));
  for (const kind of ["reload", "store", "upstream", "warning", "attack"]) events.addEventListener(kind, () => refresh());
  events.onerror = () => {
    $("state").textContent = "no answer";
    $("state").className = "pill down";
  };
}

// ---- in turns

async function refresh() {
  const parts = [
    ["status", showStatus], ["history", showHistory], ["limits", showLimits], ["routes", showRoutes],
    [`clients?by=${shown.by}&minutes=${shown.minutes}&n=15${shown.limit ? `&limit=${encodeURIComponent(shown.limit)}` : ""}`, showClients],
  ];
  for (const [path, show] of parts) {
    try { show(await ask(path)); } catch (error) {
      $("state").textContent = "no answer";
      $("state").className = "pill down";
      return;
    }
  }
}

function choose(attribute, apply) {
  for (const button of document.querySelectorAll(`[data-${attribute}]`))
    button.addEventListener("click", () => {
      for (const other of document.querySelectorAll(`[data-${attribute}]`)) other.setAttribute("aria-pressed", String(other === button));
      apply(button.dataset[attribute]);
      refresh();
    });
}

choose("by", by => { shown.by = by; });
choose("minutes", minutes => { shown.minutes = Number(minutes); });
choose("span", span => { shown.span = Number(span); newChart(); });
$("filter").addEventListener("change", event => { shown.limit = event.target.value; refresh(); });
$("pause").addEventListener("click", event => {
  shown.paused = !shown.paused;
  event.target.setAttribute("aria-pressed", String(shown.paused));
  event.target.textContent = shown.paused ? "Go on" : "Pause";
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", newChart);
new ResizeObserver(() => state.chart && state.chart.setSize({ width: $("chart").clientWidth, height: 220 })).observe($("chart"));
setInterval(() => { for (const row of state.clients) if (row.tick) row.tick(); }, 250);
setInterval(() => { if (!document.hidden) refresh(); }, 2000);
refresh();
listen();
