// A server that was started again asks for its pass phrase again, and so it does after some hours. Then it lets no
// websocket in, and Streamlit shows a status number. A reload leads to the question, and from there back to the run.

const EVERY = 2000; // ms
const STATE = "data-test-connection-state";

/** Look while there is no connection. Gives back what ends it. */
export function askForPhraseAgain() {
  const timer = setInterval(async () => {
    const app = document.querySelector(`[${STATE}]`);
    if (!app || app.getAttribute(STATE) === "CONNECTED") return;
    const answer = await fetch("/_stcore/host-config", { cache: "no-store" }).catch(() => null); // null: not there yet
    if (answer?.status === 401) location.reload();
  }, EVERY);
  return () => clearInterval(timer);
}
