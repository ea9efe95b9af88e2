// ---- the gate, its store, its upstreams and its certificates

// Days before its end from which a certificate is trouble. ACME clients renew earlier.
const SOON = 14;
let certificates = [];

const daysLeft = certificate => (certificate.expires * 1000 - Date.now()) / 86_400_000;

function certificateWords(certificate) {
  const left = daysLeft(certificate), on = day(certificate.expires * 1000);
  return left < 0 ? `expired on ${on}` : `expires in ${duration(left * 86_400)}, on ${on}`;
}

// The certificates are in the metrics only.
async function readCertificates() {
  const answer = await fetch(`${GATE}/metrics`);
  if (!answer.ok) throw await problem(answer);
  const lines = (await answer.text()).matchAll(/^tollgate_certificate_expiry_seconds\{name="(.*)"\} (\S+)/gm);
  certificates = [...lines].map(([, name, expires]) => ({ name, expires: Number(expires) }));
}

function showStatus(status) {
  showState(status.state === "running" ? "up" : "down", status.state);
  const facts = [["version", status.version], ["up", duration(status.uptime)], ["configuration", status.config.name],
    ["listening on", status.listen.join(", ")]];
  $("facts").replaceChildren(...facts.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  $("tile-connections").textContent = whole(status.connections);
  $("health").replaceChildren(...healthLines(status));
  showNotices(status);
}

function showState(kind, text) {
  tell($("state"), text);
  $("state").className = `pill ${kind}`;
}

const healthLine = (kind, what, name, words) => make("li", {}, pill(kind, what), make("code", {}, name), say(words));

function healthLines({ store, upstreams, sandbox }) {
  const answers = one => (one.up ? "answers" : "does not answer");
  return [
    healthLine(store.up ? "up" : "down", "store", store.url, answers(store)),
    ...upstreams.map(one => healthLine(one.up ? "up" : "down", "upstream", one.upstream,
      one.up ? `answers, ${counted(one.requests, "request", "requests")} in flight` : "does not answer")),
    ...certificates.map(one => healthLine(daysLeft(one) < SOON ? "down" : "up", "certificate", one.name, certificateWords(one))),
    ...(sandbox ? [healthLine("off", "sandbox", sandbox, "")] : []),
  ];
}
