#include "tools/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

namespace jfa::tools {
namespace {

using Option = CommandSyntax::Option;

// "it's" as a word of a POSIX shell, and of fish.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c == '\n' ? ' ' : c;
    }
  }
  return word + "'";
}

// Calls visit(line, command) for the program and all its commands; line: "jfa cache list".
using Visit = std::function<void(const std::string& line, const CommandSyntax& command)>;
void for_each_command(const CommandSyntax& command, const std::string& before, const Visit& visit) {
  const std::string line = before.empty() ? command.name : before + " " + command.name;
  visit(line, command);
  for (const CommandSyntax& inner : command.commands) for_each_command(inner, line, visit);
}

// 'jfa run'|'jfa cache'|'jfa cache list': the command lines behind which another command begins.
std::string command_lines(const CommandSyntax& program, std::string_view separator) {
  std::vector<std::string> lines;
  for_each_command(program, "", [&](const std::string& line, const CommandSyntax& command) {
    if (&command != &program) lines.push_back(shell_word(line));
  });
  return fmt::format("{}", fmt::join(lines, separator));
}

// 'jfa emit --format'|…: the words that a value of the option follows.
std::string value_lines(const std::string& line, const Option& option) {
  std::vector<std::string> lines;
  for (const std::string& name : option.names) lines.push_back(shell_word(line + " " + name));
  return fmt::format("{}", fmt::join(lines, "|"));
}

// What a program that is not this one says of its options.
std::string options_of_foreign(const std::string& line) {
  return fmt::format("{} --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u", line);
}

// The beginning of both POSIX shells' functions: `line` becomes the command that is being completed.
std::string find_line(const CommandSyntax& program, std::string_view first, std::string_view end,
                      std::string_view word) {
  return fmt::format(
      "  local line={} i\n"
      "  for ((i = {}; i < {}; ++i)); do\n"
      "    case \"$line {}\" in\n"
      "      {}) line=\"$line {}\" ;;\n"
      "    esac\n"
      "  done\n",
      shell_word(program.name), first, end, word, command_lines(program, "|"), word);
}

std::string function_name(const CommandSyntax& program) {
  std::string name = "_" + program.name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
}

std::string bash_script(const CommandSyntax& program) {
  const std::string function = function_name(program);
  std::string values, words;
  for_each_command(program, "", [&](const std::string& line, const CommandSyntax& command) {
    std::string all;
    for (const Option& option : command.options) {
      all += fmt::format(" {}", fmt::join(option.names, " "));
      if (!option.takes_value) continue;
      const std::string complete =
          option.choices.empty() ? (option.takes_file ? "compopt -o default" : ":")
                                 : fmt::format("COMPREPLY=($(compgen -W {} -- \"$current\"))",
                                               shell_word(fmt::format("{}", fmt::join(option.choices, " "))));
      values += fmt::format("    {}) {}; return ;;\n", value_lines(line, option), complete);
    }
    for (const CommandSyntax& inner : command.commands) all += " " + inner.name;
    all += fmt::format(" {}", fmt::join(command.words, " "));
    words +=
        fmt::format("    {}) words={}{} ;;\n", shell_word(line),
                    command.is_foreign ? fmt::format("$({})", options_of_foreign(line)) : shell_word(all),
                    command.takes_files || command.is_foreign ? "; compopt -o default" : "");
  });
  return fmt::format(
      "# {0} completion for bash, made by `{0} completion bash`\n"
      "{1}() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words=\n"
      "  [[ $previous == '=' ]] && previous=${{COMP_WORDS[COMP_CWORD - 2]}}\n"
      "  [[ $current == '=' ]] && current=\n"
      "{2}"
      "  COMPREPLY=()\n"
      "  case \"$line $previous\" in\n"
      "{3}"
      "  esac\n"
      "  case \"$line\" in\n"
      "{4}"
      "  esac\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -F {1} {0}\n",
      program.name, function, find_line(program, "1", "COMP_CWORD", "${COMP_WORDS[i]}"), values, words);
}

// An entry of zsh's _describe: "--name:description".
std::string described(std::string_view name, std::string_view description) {
  std::string entry;
  for (const char c : name) entry += c == ':' ? std::string("\\:") : std::string(1, c);
  return shell_word(fmt::format("{}:{}", entry, description));
}

std::string zsh_script(const CommandSyntax& program) {
  const std::string function = function_name(program);
  std::string values, words;
  for_each_command(program, "", [&](const std::string& line, const CommandSyntax& command) {
    std::string options, arguments;
    for (const Option& option : command.options) {
      for (const std::string& name : option.names) options += " " + described(name, option.description);
      if (!option.takes_value) continue;
      const std::string complete = !option.choices.empty()
                                       ? fmt::format("compadd -- {}", fmt::join(option.choices, " "))
                                   : option.takes_file ? std::string("_files")
                                                       : "_message " + shell_word(option.description);
      values += fmt::format("    {}) {}; return ;;\n", value_lines(line, option), complete);
    }
    for (const CommandSyntax& inner : command.commands)
      arguments += " " + described(inner.name, inner.description);
    for (const std::string& word : command.words) arguments += " " + described(word, "");
    words += fmt::format("    {})\n", shell_word(line));
    if (command.is_foreign)
      words += fmt::format("      compadd -- ${{(f)\"$({})\"}}\n", options_of_foreign(line));
    if (!options.empty()) words += fmt::format("      options=({})\n", options.substr(1));
    if (!arguments.empty()) words += fmt::format("      arguments=({})\n", arguments.substr(1));
    if (command.takes_files || command.is_foreign) words += "      _files\n";
    words += "      ;;\n";
  });
  // In zsh `words` and CURRENT, which counts from 1, are the command line.
  return fmt::format(
      "#compdef {0}\n"
      "# {0} completion for zsh, made by `{0} completion zsh`\n"
      "{1}() {{\n"
      "  local -a options arguments\n"
      "{2}"
      "  case \"$line ${{words[CURRENT-1]}}\" in\n"
      "{3}"
      "  esac\n"
      "  case \"$line\" in\n"
      "{4}"
      "  esac\n"
      "  [[ ${{#arguments}} -gt 0 ]] && _describe 'argument' arguments\n"
      "  [[ ${{#options}} -gt 0 ]] && _describe -o 'option' options\n"
      "}}\n"
      "if [[ ${{funcstack[1]}} == {1} ]]; then {1} \"$@\"; else compdef {1} {0}; fi\n",
      program.name, function, find_line(program, "2", "CURRENT", "${words[i]}"), values, words);
}

std::string fish_script(const CommandSyntax& program) {
  const std::string at = "_" + function_name(program) + "_at";
  std::string text = fmt::format(
      "# {0} completion for fish, made by `{0} completion fish`\n"
      "function {1}\n"
      "    set -l line {0}\n"
      "    for word in (commandline -opc)[2..]\n"
      "        switch \"$line $word\"\n"
      "            case {2}\n"
      "                set line \"$line $word\"\n"
      "        end\n"
      "    end\n"
      "    test \"$line\" = \"$argv\"\n"
      "end\n"
      "complete -c {0} -f\n",
      program.name, at, command_lines(program, " "));
  for_each_command(program, "", [&](const std::string& line, const CommandSyntax& command) {
    const std::string begin = fmt::format("complete -c {} -n {}", program.name, shell_word(at + " " + line));
    for (const Option& option : command.options) {
      text += begin;
      for (const std::string& name : option.names)
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (!option.choices.empty())
        text += " -x -a " + shell_word(fmt::format("{}", fmt::join(option.choices, " ")));
      else if (option.takes_value)
        text += option.takes_file ? " -r -F" : " -x";
      text += fmt::format(" -d {}\n", shell_word(option.description));
    }
    for (const CommandSyntax& inner : command.commands)
      text += fmt::format("{} -a {} -d {}\n", begin, inner.name, shell_word(inner.description));
    for (const std::string& word : command.words) text += fmt::format("{} -a {}\n", begin, shell_word(word));
    if (command.is_foreign) text += fmt::format("{} -a \"({})\"\n", begin, options_of_foreign(line));
    if (command.takes_files || command.is_foreign) text += begin + " -F\n";
  });
  return text;
}

}  // namespace

std::string completion_script(const CommandSyntax& program, std::string_view shell) {
  if (shell == "bash") return bash_script(program);
  return shell == "zsh" ? zsh_script(program) : fish_script(program);
}

}  // namespace jfa::tools
