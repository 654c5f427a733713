// A user's own defaults of options: $XDG_CONFIG_HOME/tilewright/config.toml.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tilewright::cli {

// The file that TILEWRIGHT_CONFIG names, else config.toml in XDG's place where there is one. Empty:
// none is read. Throws UsageError when TILEWRIGHT_CONFIG names a file that is not there.
std::string settings_path();

// Adds `--settings FILE`, a file that is read in the place of that one. It holds `option = value`:
// those above the first section hold for every command that has the option, those behind `[tune]` or
// `[db.prune]` for that command, and go first. The command line goes before both, and so does the
// environment. The parser throws UsageError that names the file for an option that no command has,
// with the one that may be meant, and for a value that the option does not take.
void add_settings(CLI::App& app);

}  // namespace tilewright::cli
