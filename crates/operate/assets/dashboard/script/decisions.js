// ---- attempts as they are decided
//
// Each limit sends its decision; the decisions of one attempt are one line.

const VERDICTS = { refuse: "refused", observe: "would be refused", admit: "admitted", exempt: "exempt" };
const STRICTEST = Object.keys(VERDICTS);
const LINES = 100;
const latest = { attempts: [], isPaused: false, skipped: 0 };

function showDecision(decision) {
  if (latest.isPaused) return;
  const known = latest.attempts.find(({ decisions: [first] }) => decision.request_id && first.request_id === decision.request_id);
  if (known) return addDecision(known, decision);
  const lines = $("decisions");
  const line = decisionLine([decision]);
  latest.attempts = [{ decisions: [decision], line }, ...latest.attempts].slice(0, LINES);
  lines.prepend(line);
  while (lines.children.length > LINES) lines.lastChild.remove();
  $("no-decisions").hidden = true;
}

function addDecision(attempt, decision) {
  attempt.decisions.push(decision);
  const line = decisionLine(attempt.decisions);
  attempt.line.replaceWith(line);
  attempt.line = line;
}

// The decision that counts: the strictest one. A candidate decides nothing.
function strictest(decisions) {
  const live = decisions.filter(one => !list.candidates.has(one.limit));
  return [...(live.length > 0 ? live : decisions)].sort((a, b) => STRICTEST.indexOf(a.verdict) - STRICTEST.indexOf(b.verdict))[0];
}

function decisionLine(decisions) {
  const one = strictest(decisions), isKept = one.verdict === "refuse" || one.verdict === "observe";
  const left = one.left === null ? "" : `${one.left} left`;
  const words = isKept ? `by ${one.limit}, ${waitWords(one.wait)}` : [left, one.outcome].filter(Boolean).join(", ");
  return make("li", { class: one.verdict },
    make("time", { datetime: one.time }, clock(one.time, { second: "2-digit" })),
    make("span", { class: `verdict ${one.verdict}` }, VERDICTS[one.verdict]),
    make("span", {}, make("code", {}, one.client), say(` ${one.route}`)),
    say(words));
}

const waitWords = wait => (wait === null || wait === undefined ? "until an operator ends it" : `wait ${duration(wait)}`);

function showSkipped({ decisions }) {
  latest.skipped += decisions;
  $("skipped").textContent = `${counted(latest.skipped, "decision was", "decisions were")} left out: too many a second.`;
  $("skipped").hidden = false;
}

function pause(event) {
  latest.isPaused = !latest.isPaused;
  event.target.setAttribute("aria-pressed", String(latest.isPaused));
}
