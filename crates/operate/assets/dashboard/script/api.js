// ---- questions to the gate, and changes that people ask for

// Not a relative address: one with a password in it is refused by fetch.
const GATE = location.origin;
const API = `${GATE}/api/v1/`;

async function ask(path) {
  const answer = await fetch(API + path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw await problem(answer);
  return answer.json();
}

async function change(method, path, body) {
  const answer = await fetch(API + path, {
    method,
    headers: { "Content-Type": "application/json", "X-Tollgate-Request": "1" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (!answer.ok) throw await problem(answer);
}

// The reason that the gate gives, and the status.
async function problem(answer) {
  const error = new Error(`${answer.status} ${answer.statusText}`);
  try { error.message = (await answer.json()).detail; } catch { /* The status has to do. */ }
  error.status = answer.status;
  return error;
}

// Returns a handler that asks once, makes the change, and tells what came of it.
function confirmed(title, text, label, action) {
  return () => {
    const dialog = $("ask");
    $("ask-title").textContent = title;
    $("ask-text").textContent = text;
    $("ask-yes").textContent = label;
    dialog.returnValue = "no";
    dialog.onclose = async () => {
      if (dialog.returnValue !== "yes") return;
      try { await action(); toast(`${label}: done.`); await refreshNow(); } catch (error) { toast(error.message); }
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
