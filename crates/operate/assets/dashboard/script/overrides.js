// ---- exemptions and bans

const OVERRIDES = {
  exemptions: { word: "exemption", pill: () => pill("enforce", "exempt"), after: "All limits apply to it again." },
  bans: { word: "ban", pill: one => pill("down", one.all ? "banned from everything" : "banned"), after: "It may try to sign in again." },
};

async function readOverrides() {
  const [{ exemptions }, { bans }] = await Promise.all([ask("exemptions"), ask("bans")]);
  if (inUse($("override-rows"))) return;
  const rows = [...bans.map(one => overrideRow("bans", one)), ...exemptions.map(one => overrideRow("exemptions", one))];
  fill($("override-rows"), ...rows);
  $("override-table").hidden = rows.length === 0;
  $("no-overrides").hidden = rows.length > 0;
}

function overrideRow(kind, one) {
  const { word, pill: mark, after } = OVERRIDES[kind];
  const ended = confirmed(`End the ${word} of ${one.prefix}?`, after, `End the ${word}`,
    () => change("DELETE", `${kind}/${encodeURIComponent(one.prefix)}`));
  return make("tr", {},
    make("th", { scope: "row" }, make("code", {}, one.prefix)),
    make("td", {}, mark(one)),
    make("td", { "data-label": "ends" }, make("time", { datetime: one.until }, end(one.until))),
    make("td", { "data-label": "by" }, say(setBy(one))),
    make("td", { "data-label": "why" }, one.why || say("no reason given")),
    make("td", { class: "acts" }, button("End", `the ${word} of ${one.prefix}`, ended)));
}

// The operator and the time, where the gate knows them.
const setBy = ({ by, since }) => [by, since ? `at ${clock(since)}` : null].filter(Boolean).join(" ") || "–";
