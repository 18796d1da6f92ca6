// Which browser this is, so that a server open to others lists each one's own runs. The server made the name up; it says
// nothing of the reader, and no other site gets it.

const NAME = "miniinfer_browser";
const YEAR = 365 * 24 * 3600; // seconds

export function rememberBrowser(id) {
  if (!/^[\w-]{12}$/.test(id ?? "")) return;
  const cookie = `${NAME}=${id}`;
  if (document.cookie.split("; ").includes(cookie)) return;
  document.cookie = `${cookie}; Path=/; SameSite=Strict; Max-Age=${YEAR}`;
}
