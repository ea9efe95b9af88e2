// ---- everything in turns

const EVERY = 2000;
const CERTIFICATES_EVERY = 60_000;

// The clients come after the limits, which tell who is a candidate.
const PARTS = [
  readStatus,
  async () => showHistory(await ask("history")),
  async () => showLimits(await ask("limits")),
  async () => showRoutes(await ask("routes")),
  readClients,
  readOverrides,
];

// Parts about all sites are not for a token for some sites: the others are shown.
async function refresh() {
  for (const part of PARTS) {
    try { await part(); } catch (error) { if (error.status !== 403) return noAnswer(error); }
  }
}

async function readStatus() {
  try { showStatus(await ask("status")); } catch (error) {
    if (error.status !== 403) throw error;
    showState("up", "answers");
  }
}

// After a change, also under the pointer.
let isForced = false;
async function refreshNow() {
  isForced = true;
  await refresh();
  isForced = false;
}

async function refreshClients() {
  try { await readClients(); } catch (error) { noAnswer(error); }
}

const noAnswer = error => showState("down", error.status ? `error ${error.status}` : "no answer");

// Ends when the events come, or cannot come.
function listen() {
  const events = new EventSource(`${API}events`);
  const on = (kind, show) => events.addEventListener(kind, event => show(JSON.parse(event.data)));
  on("decision", showDecision);
  on("skipped", showSkipped);
  on("store", event => { reportStore(event); refresh(); });
  on("warning", event => { reportWarning(event); refresh(); });
  for (const kind of ["reload", "upstream", "attack"]) on(kind, () => refresh());
  return new Promise(done => {
    events.onopen = done;
    events.onerror = error => { noAnswer(error); done(); };
  });
}

// Events come before anything is shown, so that no decision after it is missed. They are about all sites, as is the status:
// a token for some sites is refused both.
async function start() {
  const isNarrowed = await ask("status").then(() => false, error => error.status === 403);
  if (!isNarrowed) await listen();
  await readCertificates().catch(noAnswer);
  await refresh();
}

// Buttons of which one is pressed: `data-NAME` has the value of each.
function choose(name, apply) {
  const all = document.querySelectorAll(`[data-${name}]`);
  for (const one of all)
    one.addEventListener("click", () => {
      all.forEach(other => other.setAttribute("aria-pressed", String(other === one)));
      apply(one.dataset[name]);
    });
}

function chooseClients(name, apply) {
  choose(name, value => { apply(value); list.page = 0; refreshClients(); });
}

let typed;
chooseClients("by", by => { list.by = by; });
chooseClients("minutes", minutes => { list.minutes = Number(minutes); });
chooseClients("kind", kind => { list.kind = kind; });
choose("span", span => { chart.span = Number(span); newChart(); });
$("filter").addEventListener("change", event => { list.limit = event.target.value; list.page = 0; refreshClients(); });
$("search").addEventListener("input", event => { clearTimeout(typed); typed = setTimeout(() => search(event.target.value), 300); });
$("previous").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));
$("pause").addEventListener("click", pause);
$("only-refused").addEventListener("change", event => $("decisions").classList.toggle("only-refused", event.target.checked));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", newChart);
new ResizeObserver(fitChart).observe($("chart"));
setInterval(() => list.rows.forEach(row => row.tick()), 250);
setInterval(() => { if (!document.hidden) refresh(); }, EVERY);
setInterval(() => readCertificates().catch(noAnswer), CERTIFICATES_EVERY);
start();
