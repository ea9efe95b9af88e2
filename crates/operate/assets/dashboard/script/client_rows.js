// ---- the rows of clients and accounts

function showClients(rows, isFull) {
  if (inUse($("client-rows"))) return;
  const all = list.name ? rows : rows.filter(row => row.kind === list.kind);
  const pages = Math.max(1, Math.ceil(all.length / PAGE_ROWS));
  if (list.page >= pages && !isFull) list.page = pages - 1;
  const first = list.page * PAGE_ROWS;
  list.rows = all.slice(first, first + PAGE_ROWS).map(clientRow);
  fill($("client-rows"), ...list.rows);
  $("client-table").hidden = list.rows.length === 0;
  $("no-clients").hidden = list.rows.length > 0;
  $("no-clients").textContent = emptyWords();
  showPager(first, all.length, isFull);
}

function emptyWords() {
  const span = `in the last ${counted(list.minutes, "minute", "minutes")}`;
  if (list.refusal) return `${list.refusal}.`;
  if (list.name) return `No attempt of ${list.name} ${span}.`;
  return list.by === "refused" ? `No ${list.kind} was refused ${span}. “busiest” shows all.` : `No ${list.kind} made an attempt ${span}.`;
}

function showPager(first, total, isFull) {
  const last = first + list.rows.length;
  $("pager").hidden = total <= PAGE_ROWS && !isFull;
  tell($("pager-text"), `${whole(first + 1)} to ${whole(last)} of ${whole(total)}${isFull ? " or more" : ""}`);
  $("previous").disabled = list.page === 0;
  $("next").disabled = last >= total && !isFull;
}

function clientRow(row) {
  const lines = [...row.limits.map(limitLine), ...row.candidates.filter(one => one.refused > 0).map(candidateLine)];
  const number = (count, kind, label) =>
    make("td", { class: `number ${count > 0 ? kind : "none"}`, "data-label": label }, `${whole(count)}${row.isLow && count > 0 ? "+" : ""}`);
  const element = make("tr", {},
    make("th", { scope: "row" }, owner(row)),
    number(row.attempts, "", "attempts"),
    number(row.refused, "hot", "refused"),
    number(row.would, "warm", "would be refused"),
    make("td", { class: "levels" }, ...lines),
    make("td", { class: "acts" }, ...actions(row)));
  element.tick = () => lines.forEach(line => line.tick && line.tick());
  return element;
}

function owner(row) {
  if (row.kind !== "account") return make("code", {}, row.name);
  const named = row.key ? list.name : null;
  return make("span", {}, "account ", make("code", {}, named || row.name), named && named !== row.name ? say(` ${row.name}`) : null);
}

// A limit with its tokens, which fill while people look.
function limitLine(one) {
  const name = make("span", { class: "of" }, one.limit, isEnforced(one) ? null : pill("observe", one.mode));
  const instead = wordsForTokens(one);
  if (instead) return make("div", { class: "level" }, name, say(instead));
  const bar = track(1), text = say("");
  const line = make("div", { class: "level" }, name, bar, text);
  line.tick = levelOverTime(one, bar, text);
  line.tick();
  return line;
}

// What is shown in place of tokens; null where they count and are known.
function wordsForTokens({ exempt_until: exempt, banned_until: banned, burst, account }) {
  if (exempt) return `exempt until ${end(exempt)}`;
  if (banned) return `banned until ${end(banned)}`;
  if (burst) return null;
  return account ? "tokens by name only" : "–";
}

function levelOverTime(one, bar, text) {
  const asked = performance.now(), full = Math.max(0, Date.parse(one.full_at) - Date.now());
  return () => {
    const passed = performance.now() - asked;
    const share = full > 0 ? Math.min(1, passed / full) : 1;
    const tokens = one.tokens + (one.burst - one.tokens) * share;
    bar.firstChild.style.transform = `scaleX(${Math.max(0.02, tokens / one.burst)})`;
    bar.classList.toggle("empty", tokens < 1);
    const left = Math.max(0, one.next - passed / 1000);
    text.textContent = tokens < 1 ? `next in ${duration(left)}` : `${Math.floor(tokens)} of ${one.burst} tokens`;
  };
}

// What the candidate of a limit would do, apart from what the gate does.
const candidateLine = one => make("div", { class: "level" },
  make("span", { class: "of" }, list.candidates.get(one.limit), pill("off", "candidate")),
  say(`would refuse ${whole(one.refused)} of ${counted(one.attempts, "attempt", "attempts")}`));

function actions(row) {
  if (!row.key) return [say(row.kind === "account" ? "search its name to change it" : "")];
  const name = row.kind === "account" ? list.name : row.name;
  return [...bucketButtons(row, name), row.kind === "account" ? null : exemptButton(name)].filter(Boolean);
}

// They change the bucket of each limit of the row.
function bucketButtons(row, name) {
  const limits = row.limits.map(one => one.limit), path = `buckets/${encodeURIComponent(row.key)}`;
  if (limits.length === 0) return [];
  const each = act => async () => { for (const limit of limits) await act(limit); };
  const reset = confirmed(`Reset ${name}?`, `It is full again, without failures and waits, under ${limits.join(", ")}.`, "Reset",
    each(limit => change("DELETE", `${path}?limit=${encodeURIComponent(limit)}`)));
  const credit = confirmed(`Give ${name} five tokens?`, `It gets five tokens, or as many as fit, under ${limits.join(", ")}.`, "Give five tokens",
    each(limit => change("POST", `${path}/credit`, { tokens: 5, limit })));
  return [button("Reset", name, reset), button("+5", `tokens for ${name}`, credit)];
}

const exemptButton = name => button("Exempt", `${name} for an hour`, confirmed(`Exempt ${name} for an hour?`,
  "No limit refuses it until then. The log and the list below name you.", "Exempt for an hour",
  () => change("PUT", `exemptions/${encodeURIComponent(name)}`, { for: "1h", why: "dashboard" })));
