// The commands within `jfa tune`.
#pragma once

namespace CLI {
class App;
}

namespace jfa::tools {

/// show, export, import, diff and verify, of databases.
void add_tune_database_commands(CLI::App& tune, int& exit_code);

}  // namespace jfa::tools
