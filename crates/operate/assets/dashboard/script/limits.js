// ---- limits and routes

// What a limit decided since the start, as words and a bar.
function decided(limit, { admit, refuse, observe }) {
  const all = admit + refuse + observe, isCandidate = Boolean(limit.candidate_of);
  const parts = [];
  if (refuse > 0 || (limit.mode === "enforce" && !isCandidate)) parts.push(`${whole(refuse)} refused`);
  if (observe > 0 || limit.mode === "observe" || isCandidate) parts.push(`${whole(observe)} would be refused`);
  return make("div", { class: "decided" }, track(all > 0 ? (refuse + observe) / all : 0, refuse >= observe ? "refuse" : "observe"),
    say(`${parts.join(", ")} of ${counted(all, "attempt", "attempts")}`));
}

function modeButton(limit) {
  const other = limit.mode === "observe" ? "enforce" : "observe";
  const text = other === "observe" ? "It keeps counting and refuses no attempt until the next reload." : "It refuses attempts until the next reload.";
  return button(`Set to ${other}`, `for limit ${limit.name}`, confirmed(`Set ${limit.name} to ${other}?`, text, `Set to ${other}`,
    () => change("PUT", `limits/${encodeURIComponent(limit.name)}/mode`, { mode: other })));
}

function candidatePart(candidate) {
  return make("div", { class: "candidate" }, pill("off", "candidate"), make("p", { class: "say" }, `${candidate.spec}.`),
    decided(candidate, candidate.decisions));
}

function limitCard(limit, candidate) {
  return make("div", { class: "limit" },
    make("div", { class: "head" }, make("strong", {}, limit.name), pill(limit.mode, limit.mode),
      limit.mode_until ? say(`until ${end(limit.mode_until)}`) : null, limit.mode === "off" ? null : modeButton(limit)),
    make("p", { class: "say" }, `${limit.spec}. Key: ${limit.key}. ${counted(limit.buckets, "bucket", "buckets")} in use.`),
    decided(limit, limit.decisions), candidate ? candidatePart(candidate) : null);
}

let limitNames = "";
function showLimits({ limits }) {
  const live = limits.filter(limit => !limit.candidate_of);
  list.candidates = new Map(limits.filter(limit => limit.candidate_of).map(limit => [limit.name, limit.candidate_of]));
  const candidateOf = limit => limits.find(other => other.candidate_of === limit.name);
  if (!inUse($("limits"))) fill($("limits"), ...live.map(limit => limitCard(limit, candidateOf(limit))));
  const names = live.map(limit => limit.name);
  if (names.join("\n") === limitNames) return;
  limitNames = names.join("\n");
  $("filter").replaceChildren(make("option", { value: "" }, "all"), ...names.map(name => make("option", { value: name }, name)));
  $("filter").value = list.limit;
}

const OUTCOMES = ["success", "failure", "neutral", "error"];

function routePart({ name, outcomes }) {
  const all = OUTCOMES.reduce((sum, kind) => sum + outcomes[kind], 0);
  const part = kind => {
    const bar = make("i", { class: kind });
    bar.style.width = `${all > 0 ? (outcomes[kind] / all) * 100 : 0}%`;
    return bar;
  };
  return make("div", { class: "limit" },
    make("div", { class: "head" }, make("strong", {}, name), say(`${counted(all, "attempt", "attempts")} admitted`)),
    make("div", { class: "split" }, ...OUTCOMES.map(part)),
    make("p", { class: "say" }, outcomeWords(outcomes)));
}

const outcomeWords = ({ success, failure, neutral, error }) =>
  `${whole(success)} succeeded, ${whole(failure)} failed, ${whole(neutral)} neutral, ${counted(error, "error", "errors")}`;

function showRoutes({ routes }) {
  fill($("routes"), ...routes.map(routePart));
  const sum = kind => routes.reduce((all, route) => all + route.outcomes[kind], 0);
  const worked = sum("success"), judged = worked + sum("failure");
  $("tile-success").replaceChildren(judged > 0 ? `${Math.round((worked / judged) * 100)}` : "–", judged > 0 ? make("small", {}, " %") : "");
  $("tile-success-unit").textContent = judged > 0 ? `${whole(worked)} of ${whole(judged)} since the start` : "since the start";
}
