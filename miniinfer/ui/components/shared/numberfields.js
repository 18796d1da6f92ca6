// What a number field holds and no number is ("1e400", "-", "1e") stays in it, and the browser says so.

/**
 * The browser gives such a text out as an empty one, which Streamlit takes for "as it was at first": another number would stand
 * there, and be used, without a word. So nobody hears of it until it is a number. Returns the way to stop.
 */
export function keepNumbers() {
  const isBad = (el) => el instanceof HTMLInputElement && el.type === "number" && el.validity.badInput;
  const say = (el) => setTimeout(() => el.isConnected && isBad(el) && el.reportValidity()); // the focus goes back to it
  const refuse = (event, el) => {
    event.stopImmediatePropagation();
    event.preventDefault();
    say(el);
  };
  const leave = (event) => {
    if (!isBad(event.target)) return;
    event.stopImmediatePropagation();
    say(event.target);
  };
  const key = (event) => event.key === "Enter" && isBad(event.target) && refuse(event, event.target);
  const click = (event) => {
    const form = event.target.closest?.("[data-testid=stFormSubmitButton]")?.closest("[data-testid=stForm]");
    const bad = form && [...form.querySelectorAll("input")].find(isBad);
    if (bad) refuse(event, bad);
  };
  const heard = { focusout: leave, keydown: key, click };
  for (const [name, fn] of Object.entries(heard)) window.addEventListener(name, fn, true);
  return () => {
    for (const [name, fn] of Object.entries(heard)) window.removeEventListener(name, fn, true);
  };
}
