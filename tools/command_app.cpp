#include "tools/command_app.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/standard_streams.h"
#include "jfa/version.h"
#include "tools/command_line.h"
#include "tools/completion.h"

namespace jfa::tools {
namespace {

using Words = std::vector<std::string>;
using Commands = std::vector<const CLI::App*>;  // within each other, the program first

constexpr const char* kHelpOption = "--help";
constexpr const char* kVersionOption = "--version";

bool is_option(std::string_view word) { return word.size() > 1 && word.starts_with('-'); }

Commands commands_of(const CLI::App& app) {
  return app.get_subcommands(std::function<bool(const CLI::App*)>());
}

const CLI::App* find_command(const CLI::App& app, std::string_view name) {
  for (const CLI::App* command : commands_of(app))
    if (command->get_name() == name) return command;
  return nullptr;
}

Commands chosen_commands(const CLI::App& program) {
  Commands chosen{&program};
  while (!chosen.back()->get_subcommands().empty())
    chosen.push_back(chosen.back()->get_subcommands().front());
  return chosen;
}

// "jfa cache list"
std::string line_of(const Commands& commands) {
  std::string line;
  for (const CLI::App* command : commands) line += (line.empty() ? "" : " ") + command->get_name();
  return line;
}

// --- What is wrong with the arguments

// The name of an option of `app` that is meant by "--name=value" or "--name".
std::string option_name(std::string_view word) { return std::string(word.substr(0, word.find('='))); }

std::string unknown_option(const std::string& word, const Commands& named, const Commands& chosen) {
  const std::string name = option_name(word);
  const std::string line = line_of(named);
  if (named.size() < chosen.size() && chosen.back()->get_option_no_throw(name) != nullptr)
    return fmt::format("{}: '{}' is an option of {}: it goes behind '{}'", line, name, line_of(chosen),
                       chosen.back()->get_name());
  return fmt::format("{}: unknown option '{}'; {} --help lists them", line, name, line);
}

std::string unexpected_word(const std::string& word, const Commands& named) {
  const std::string line = line_of(named);
  Words names;
  for (const CLI::App* command : commands_of(*named.back())) names.push_back(command->get_name());
  if (names.empty()) return fmt::format("{}: unexpected argument '{}'", line, word);
  return fmt::format("{}: '{}' is not a command; there are {}", line, word, fmt::join(names, ", "));
}

// What was left over names the mistake better than what is missing because of it. Empty if nothing was.
std::string leftover_message(const Commands& chosen, const Words& words) {
  const Words left = chosen.front()->remaining(/*recurse=*/true);
  Commands named{chosen.front()};  // before the word that is looked at
  std::string message;
  for (const std::string& word : words) {
    if (named.size() < chosen.size() && word == chosen[named.size()]->get_name()) {
      named.push_back(chosen[named.size()]);
    } else if (std::find(left.begin(), left.end(), word) != left.end()) {
      if (is_option(word)) return unknown_option(word, named, chosen);
      if (message.empty()) message = unexpected_word(word, named);
    }
  }
  return message;
}

// A word in the place of a command that is none. Said before anything is parsed, as --help behind it would
// show the help of the commands before it.
std::string no_command(const CLI::App& program, const Words& words) {
  Commands named{&program};
  for (const std::string& word : words) {
    if (is_option(word) || commands_of(*named.back()).empty()) break;
    const CLI::App* command = find_command(*named.back(), word);
    if (command == nullptr) return unexpected_word(word, named);
    named.push_back(command);
  }
  return {};
}

// The word that gives a value to an option that takes none; empty if there is no such word. Some values, such
// as "false", are accepted all the same, so this is for when one was not.
std::string flag_with_value(const Commands& chosen, const Words& words) {
  for (const std::string& word : words) {
    const CLI::Option* option = chosen.back()->get_option_no_throw(option_name(word));
    if (option == nullptr || word.find('=') == std::string::npos || option->get_items_expected_max() > 0)
      continue;
    return option_name(word);
  }
  return {};
}

// "--window: 1 required INT missing" and the like, in our words.
std::string parse_message(const CLI::ParseError& error) {
  const std::string_view text = error.what();
  const std::string option(text.substr(0, text.find(':')));
  if (error.get_name() == "ArgumentMismatch") {
    if (text.find("missing") != std::string_view::npos) return option + " needs a value";
    if (text.find("received") != std::string_view::npos) return option + " is given too often";
  }
  return std::string(text);
}

int refuse(const CLI::App& program, const CLI::ParseError& error, const Words& words) {
  const Commands chosen = chosen_commands(program);
  const CLI::App& last = *chosen.back();
  const std::string leftover = leftover_message(chosen, words);
  if (!leftover.empty()) {
    say(leftover + "\n");
  } else if (last.get_require_subcommand_min() > 0) {  // a command is missing
    say(last.help(line_of({chosen.begin(), chosen.end() - 1})));
  } else if (const std::string flag = flag_with_value(chosen, words);
             error.get_name() == "ConversionError" && !flag.empty()) {
    say(fmt::format("{}: {} takes no value\n", line_of(chosen), flag));
  } else {
    say(fmt::format("{}: {}\n", line_of(chosen), parse_message(error)));
  }
  return kFailure;
}

// --- What all programs have

// `help x y` is `x y --help`, `version` is --version.
Words canonical(int argc, const char* const* argv) {
  Words words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return words;
  if (words.front() == "version" && words.size() == 1) return {kVersionOption};
  if (words.front() != "help") return words;
  words.erase(words.begin());
  if (std::none_of(words.begin(), words.end(), is_option)) words.emplace_back(kHelpOption);
  return words;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

CommandSyntax::Option syntax_of(const CLI::Option& option) {
  CommandSyntax::Option syntax;
  for (const std::string& name : option.get_snames()) syntax.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) syntax.names.push_back("--" + name);
  syntax.description = option.get_description();
  syntax.takes_value = option.get_items_expected_max() > 0;
  // The names of the types are our own: "a|b|c" where there are only these, and some for files.
  const std::string type = option.get_type_name();
  syntax.takes_file = is_one_of(type, {"FILE", "DIR", "OUT", "PROGRAM"});
  if (type.find('|') == std::string::npos) return syntax;
  std::istringstream choices(type.substr(0, type.find(' ')));
  for (std::string choice; std::getline(choices, choice, '|');) syntax.choices.push_back(choice);
  return syntax;
}

CommandSyntax syntax_of(const CLI::App& command, std::span<const Companion> companions) {
  CommandSyntax syntax;
  syntax.name = command.get_name();
  syntax.description = command.get_description();
  syntax.is_foreign =
      std::ranges::find(companions, std::string_view(syntax.name), &Companion::name) != companions.end();
  for (const CLI::Option* option : command.get_options()) {
    CommandSyntax::Option known = syntax_of(*option);
    if (!option->nonpositional() && known.names.empty()) {
      syntax.takes_files = syntax.takes_files || known.takes_file;
      syntax.words.insert(syntax.words.end(), known.choices.begin(), known.choices.end());
    } else if (!option->get_group().empty()) {  // not hidden
      syntax.options.push_back(std::move(known));
    }
  }
  // An option of the command around it may stand here too.
  if (command.get_fallthrough() && command.get_parent() != nullptr)
    for (const CLI::Option* option : command.get_parent()->get_options())
      if (option->get_name() != kHelpOption && option != command.get_parent()->get_help_ptr())
        syntax.options.push_back(syntax_of(*option));
  for (const CLI::App* inner : commands_of(command)) syntax.commands.push_back(syntax_of(*inner, companions));
  if (command.get_parent() != nullptr) return syntax;
  for (CommandSyntax& help : syntax.commands)  // completes the names of the others
    if (help.name == "help")
      for (const CommandSyntax& other : syntax.commands) help.words.push_back(other.name);
  return syntax;
}

void add_common_commands(CLI::App& app, const Program& program) {
  for (const Companion& companion : program.companions)
    if (find_command(app, companion.name) == nullptr)
      app.add_subcommand(std::string(companion.name), std::string(companion.summary));
  CLI::App& completion =
      *app.add_subcommand("completion", "Print the script that has a shell complete command lines");
  completion.footer(fmt::format("For bash: source <({} completion bash)", program.name));
  const auto shell = std::make_shared<std::string>();
  completion.add_option("SHELL", *shell, "of which shell")
      ->required()
      ->type_name(fmt::format("{}", fmt::join(kShells, "|")))
      ->check([](const std::string& name) {
        const bool known = std::ranges::find(kShells, name) != std::end(kShells);
        return known ? "" : fmt::format("'{}' is none of {}", name, fmt::join(kShells, ", "));
      });
  completion.callback([&app, shell, companions = program.companions] {
    tell(completion_script(syntax_of(app, companions), *shell));
  });
  app.add_subcommand("help", "Show the help of a command");  // these two are never parsed: canonical()
  app.add_subcommand("version", "Show the version");
}

}  // namespace

int run_commands(const Program& program, int argc, const char* const* argv) {
  CLI::App app{program.description, program.name};
  std::string prefix = program.name;
  return run_program(prefix, [&] {
    if (program.begin != nullptr) program.begin();
    app.set_version_flag("-V,--version", fmt::format("{} {}", program.name, version_and_commit()));
    app.require_subcommand(1);
    app.parse_complete_callback([&] { prefix = line_of(chosen_commands(app)); });
    int exit_code = kSuccess;
    for (const AddCommand add : program.commands) add(app, exit_code);
    add_common_commands(app, program);
    const Words words = canonical(argc, argv);
    if (const std::string message = no_command(app, words); !message.empty()) {
      say(message + "\n");
      return static_cast<int>(kFailure);
    }
    try {
      app.parse(Words(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) return refuse(app, error, words);
      std::ostringstream text;  // --help, --version
      const int code = app.exit(error, text, text);
      tell(text.str());
      return code;
    } catch (const std::logic_error& error) {  // of std::stoll(), by which flags are read
      if (flag_with_value(chosen_commands(app), words).empty()) throw;
      return refuse(app, CLI::ConversionError(error.what(), CLI::ExitCodes::ConversionError), words);
    }
    return exit_code;
  });
}

}  // namespace jfa::tools
