// Between a click on "New run" and the picture of that run, a step forward means the run that is coming.

const PANEL = '[data-testid="stSidebar"]';

export class Coming {
  #clicked = false;
  #steps = 0;

  constructor() {
    const click = ({ target }) => {
      const button = target?.closest?.("button"); // those of our components lie in shadows, and are none here
      if (!button) return;
      this.#clicked = button.closest(PANEL) !== null;
      this.#steps = 0;
    };
    document.addEventListener("click", click, true); // first, for what the button does may take it away
  }

  /** The user wants one step more. */
  forward() {
    if (this.#clicked) this.#steps++;
  }

  /** The user went elsewhere in the run that is there. */
  forget() {
    this.#steps = 0;
  }

  /** A run came into view. How many of its steps are wanted already; fresh: it has none so far. */
  take(fresh) {
    const steps = fresh ? this.#steps : 0;
    this.#clicked = false;
    this.#steps = 0;
    return steps;
  }
}
