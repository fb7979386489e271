// Completion of a command line by the shell, generated from the options that the command itself parses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace jfa::tools {

/// What a shell may know of a command: itself and all below it.
struct CommandSyntax {
  struct Option {
    std::vector<std::string> names;  // "-o", "--output"
    std::string description;
    bool takes_value = false;
    bool takes_file = false;           // the value is one
    std::vector<std::string> choices;  // all values that there are, if they can be listed
  };
  std::string name;
  std::string description;
  bool takes_files = false;  // as arguments that are no option's
  bool is_foreign = false;   // another program, which is asked for its options when they are needed
  std::vector<Option> options;
  std::vector<std::string> words;  // arguments that are one of a few
  std::vector<CommandSyntax> commands;
};

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

/// The script that has the shell, one of kShells, complete this program's command lines.
std::string completion_script(const CommandSyntax& program, std::string_view shell);

}  // namespace jfa::tools
