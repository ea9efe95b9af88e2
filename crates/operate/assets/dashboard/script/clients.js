// ---- which clients and accounts are shown
//
// The gate counts each under every limit that it pays to. Here a client is one row, and its limits are lines of it.

const PAGE_ROWS = 15;
// A client has a row of the answer for each of its limits.
const ASKED_ROWS = 200;
const MOST_ROWS = 1000;
const list = { by: "refused", minutes: 10, limit: "", kind: "address", name: "", refusal: "", page: 0, candidates: new Map(), rows: [] };

const isAddress = text => /^(\d+\.){3}\d+(\/\d+)?$|^[0-9a-f.]*:[0-9a-f:.]*(\/\d+)?$/i.test(text);

// How the admin API names the buckets of what people search for.
const searched = name => (isAddress(name) ? `ip:${name.split("/")[0]}` : `user:${name}`);

const networkOf = client => client.split("/")[1];

// One IPv6 /64 is one client, as one IPv4 address is.
function kindOf({ client, account }) {
  if (account) return "account";
  return client && networkOf(client) && networkOf(client) !== "64" ? "network" : "address";
}

function clientsPath(n) {
  const parts = new URLSearchParams({ by: list.by, minutes: list.minutes, n });
  if (list.limit) parts.set("limit", list.limit);
  if (list.name) parts.set("key", searched(list.name));
  return `clients?${parts}`;
}

// One row for each client, in the order of the answer.
function grouped(clients) {
  const rows = new Map();
  for (const one of clients) {
    const name = one.client || one.account || one.limit, kind = kindOf(one);
    if (!rows.has(name)) rows.set(name, { name, kind, key: keyOf(one, kind), limits: [], candidates: [] });
    const row = rows.get(name);
    (list.candidates.has(one.limit) ? row.candidates : row.limits).push(one);
  }
  return [...rows.values()].map(counts);
}

// An account is known by its hash alone, unless it was searched for by its name.
function keyOf({ client }, kind) {
  if (kind === "account") return list.name && !isAddress(list.name) ? searched(list.name) : null;
  return client && isAddress(client) ? searched(client) : null;
}

// An attempt pays to several limits and counts once.
function counts(row) {
  const most = (limits, field) => Math.max(0, ...limits.map(one => one[field]));
  const enforced = row.limits.filter(isEnforced), observed = row.limits.filter(one => !isEnforced(one));
  const all = row.limits.length > 0 ? row.limits : row.candidates;
  return { ...row, attempts: most(all, "attempts"), refused: most(enforced, "refused"), would: most(observed, "refused"),
    isLow: all.some(one => one.error > 0) };
}

const isEnforced = one => (one.mode ?? "enforce") === "enforce";

// The buckets of the one who was searched for: accounts have their tokens only there.
async function addBuckets(clients) {
  const page = await bucketsOf(searched(list.name));
  const ofLimit = limit => page.buckets.find(bucket => bucket.limit === limit);
  const isNew = bucket => isChanged(bucket) && !ofLimitIn(clients, bucket.limit) && (!list.limit || bucket.limit === list.limit);
  const added = page.buckets.filter(isNew).map(bucket => ({ attempts: 0, refused: 0, error: 0, ...ownerOf(bucket, page), ...bucket }));
  return [...clients.map(one => ({ ...ofLimit(one.limit), ...one })), ...added];
}

const ofLimitIn = (clients, limit) => clients.some(one => one.limit === limit);
const isChanged = bucket => bucket.tokens < bucket.burst || Boolean(bucket.exempt_until || bucket.banned_until);

function ownerOf({ network }, { account }) {
  if (!isAddress(list.name)) return { account: account || list.name };
  return { client: network ? network.replace(/\/(32|128)$/, "") : list.name };
}

// Nothing where no limit has such buckets.
async function bucketsOf(key) {
  try { return await ask(`buckets/${encodeURIComponent(key)}`); } catch (error) {
    if (error.status === 404) return { buckets: [] };
    throw error;
  }
}

async function readClients() {
  const { name } = list, asked = Math.min(MOST_ROWS, ASKED_ROWS * (list.page + 1));
  const found = await foundClients(asked);
  // Whoever types while the gate answers gets the next answer.
  if (name === list.name) showClients(grouped(found), found.length >= asked && asked < MOST_ROWS);
}

async function foundClients(asked) {
  list.refusal = "";
  try {
    const { clients } = await ask(clientsPath(asked));
    return list.name ? await addBuckets(clients) : clients;
  } catch (error) {
    // Nobody has such a name.
    if (!list.name || error.status !== 422) throw error;
    list.refusal = error.message;
    return [];
  }
}

function search(name) {
  list.name = name.trim();
  list.page = 0;
  $("kinds").hidden = list.name !== "";
  refreshClients();
}

function turn(pages) {
  list.page = Math.max(0, list.page + pages);
  refreshClients();
}
