"""Where weights come from: fetching, reading model files, tokens and chat templates."""
