// The page menu is Streamlit's: it stays open on the page one is on already, and takes the focus with it when it goes.

const MENU = "[class*='st-key-page_menu'] [data-testid='stPopoverButton']";
const NAME = "[data-testid='stMarkdownContainer']";

/** {arrived(): the frame was drawn, perhaps of another page; stop}. */
export function keepPageMenu() {
  let byKey = false; // the page was chosen with the keyboard, which needs the focus back
  const menu = () => document.querySelector(MENU);
  const onClick = (event) => {
    const link = event.target instanceof Element && event.target.closest("[data-testid='stPageLink-NavLink']");
    if (!link) return;
    byKey = event.detail === 0;
    if (link.textContent.trim() !== menu()?.querySelector(NAME)?.textContent.trim()) return;
    setTimeout(() => menu()?.getAttribute("aria-expanded") === "true" && menu().click());
    setTimeout(arrived);
  };

  function arrived() {
    const to = byKey && document.activeElement === document.body ? menu() : null;
    if (!to || to.getAttribute("aria-expanded") === "true") return;
    byKey = false;
    to.focus();
  }

  document.addEventListener("click", onClick, true);
  return { arrived, stop: () => document.removeEventListener("click", onClick, true) };
}
