// Requests to the daemon. Knows nothing of the page.

export class Refused extends Error {
  constructor(problem, status) {
    super(problem.detail ?? `the daemon answers ${status}`);
    this.problem = problem;
    this.status = status;
  }
}

/** Asks, and answers the object and its tag; throws what the daemon refuses. */
export async function ask(method, path, body, tag) {
  const headers = {};
  if (body !== undefined) headers["content-type"] = "application/json";
  if (tag) headers["if-match"] = tag;
  const answer = await fetch(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const text = await answer.text();
  let value = {};
  try {
    value = text ? JSON.parse(text) : {};
  } catch {
    value = { detail: text };
  }
  if (!answer.ok) throw new Refused(value, answer.status);
  return { value, tag: answer.headers.get("etag") };
}

export const get = async (path) => (await ask("GET", path)).value;

export const vdiskPath = (name) => `/v1/vdisks/${encodeURIComponent(name)}`;
export const devicePath = (name) => `/v1/devices/${encodeURIComponent(name)}`;

const KINDS = ["created", "changed", "renamed", "snapshot", "deleted", "promise-broken", "gap"];

/** Follows the daemon until closed; begins again by itself after a loss, and then says that it missed something. */
export function follow({ sample, event, state, missed }) {
  let source;
  let begun = false;
  const open = () => {
    source = new EventSource("/v1/live");
    source.onopen = () => {
      if (begun) missed();
      begun = true;
    };
    source.addEventListener("sample", (it) => {
      state("live");
      sample(JSON.parse(it.data));
    });
    for (const kind of KINDS) source.addEventListener(kind, (it) => event(JSON.parse(it.data)));
    source.onerror = () => {
      state("lost");
      // A browser gives up for good when it is refused: the daemon may have forgotten the session.
      if (source.readyState === EventSource.CLOSED) setTimeout(reopen, 2000);
    };
  };
  const reopen = async () => {
    if (document.hidden) return;
    try {
      await get("/v1");
      source.close();
      open();
    } catch (error) {
      if (error.status === 401) state("out");
      else setTimeout(reopen, 2000);
    }
  };
  // A page that nobody sees costs nothing, and leaves the browser's few connections to others.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) source.close();
    else if (source.readyState === EventSource.CLOSED) reopen();
  });
  open();
}
