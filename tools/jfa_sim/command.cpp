#include "tools/jfa_sim/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/input_file.h"
#include "base/standard_streams.h"
#include "simulator/machine/habits.h"
#include "tools/option_checks.h"

namespace jfa::sim {

int fail(std::string_view command, const Status& status) {
  tools::say(fmt::format("jfa-sim {}: {}\n{}", command, status.message(), status.detail()));
  return kFailure;
}

void add_launch_options(CLI::App& command, LaunchOptions& options) {
  command.add_option("FILE", options.ptx_path, "a PTX file")->required()->type_name("FILE");
  command.add_option("--entry", options.entry, "the kernel")->required()->type_name("NAME");
  command.add_option("--grid", options.grid, "CTAs")->type_name("X[,Y[,Z]]")->capture_default_str();
  command.add_option("--block", options.block, "threads")->type_name("X[,Y[,Z]]")->required();
  command.add_option("--cluster", options.cluster, "CTAs")->type_name("X[,Y[,Z]]")->capture_default_str();
  tools::whole<std::uint32_t>(
      command.add_option("--shared", options.shared_bytes, "bytes of dynamic shared memory"))
      ->type_name("BYTES")
      ->capture_default_str();
  // One value an option, so that an argument may begin with a minus.
  command.add_option("--arg", options.arguments, kArgumentHelp)->expected(1)->take_all();
  command.add_option("--buffer", options.buffers, "NAME=in:…, inout:…, out:…, zero:…: for maps and structs")
      ->expected(1)
      ->take_all();
  command.add_option("--source", options.source_path, "the CUDA text behind the PTX, for reports to quote")
      ->type_name("FILE");
}

std::string alternatives(std::string names) {
  for (std::size_t at = 0; (at = names.find(", ", at)) != std::string::npos;) names.replace(at, 2, "|");
  return names;
}

std::string option_of_rule(std::string_view rule) {
  std::string option = "--" + std::string(rule);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

void add_device_options(CLI::App& command, simulator::RunOptions& options) {
  tools::whole(command.add_option("--sms", options.sms, "streaming multiprocessors"), 1, 1024)
      ->type_name("N")
      ->capture_default_str();
  // Before the options of single rules, which so have the last word.
  command
      .add_option_function<std::string>(
          "--habits", [&options](const std::string& of) { simulator::take_habits(of, options); },
          "leaves out the rules below that somebody's kernels break")
      ->type_name(alternatives(simulator::habit_names()))
      ->check([](const std::string& of) {
        simulator::RunOptions scratch;
        return simulator::take_habits(of, scratch)
                   ? ""
                   : fmt::format("{} is not one of {}", of, simulator::habit_names());
      });
  command
      .add_option("--dynamic-alignment", options.dynamic_shared_alignment,
                  "least alignment of dynamic shared memory; 1024 for code that counts on it undeclared")
      ->type_name("16|32|64|128|256|512|1024")
      ->check(CLI::IsMember({"16", "32", "64", "128", "256", "512", "1024"}).description(""))
      ->capture_default_str();
  for (const simulator::PtxRule& rule : simulator::ptx_rules())
    command.add_option(option_of_rule(rule.name), options.*rule.member, fmt::format("0: {}", rule.without))
        ->type_name("0|1")
        ->check(CLI::IsMember({"0", "1"}).description(""))
        ->default_str("1");
}

Result<LoadedLaunch> load_launch(const LaunchOptions& options) {
  LaunchDescription description;
  description.entry = options.entry;
  const std::tuple<const char*, const std::string&, simulator::Dim3&> shapes[] = {
      {"grid", options.grid, description.grid},
      {"block", options.block, description.block},
      {"cluster", options.cluster, description.cluster}};
  for (const auto& [name, text, dim] : shapes) {
    const auto parsed = parse_dim3(text);
    if (!parsed)
      return Status::invalid_argument(fmt::format("--{} {}: not one to three positive numbers", name, text));
    dim = *parsed;
  }
  description.dynamic_shared_bytes = options.shared_bytes;
  description.buffers = options.buffers;
  description.arguments = options.arguments;
  LoadedLaunch loaded;
  Result<std::string> ptx = tools::read_text(options.ptx_path);
  if (!ptx) return ptx.status();
  loaded.ptx = *std::move(ptx);
  if (!options.source_path.empty()) {
    Result<std::string> source = tools::read_text(options.source_path);
    if (!source) return source.status();
    loaded.source = *std::move(source);
  }
  Result<PreparedLaunch> launch = prepare_launch(description, loaded.ptx);
  if (!launch && launch.status().message().starts_with("PTX line"))
    return Status(launch.status().kind(), fmt::format("{}: {}", options.ptx_path, launch.status().message()));
  if (!launch) return launch.status();
  loaded.launch = *std::move(launch);
  return loaded;
}

nlohmann::ordered_json to_json(const simulator::Report& report) {
  nlohmann::ordered_json json{{"kind", simulator::to_string(report.kind)},
                              {"message", report.message},
                              {"detail", report.detail},
                              {"entry", report.entry},
                              {"instruction", report.instruction},
                              {"ptx_line", report.ptx_line}};
  if (report.source_line > 0)
    json["source"] = {
        {"file", report.source_file}, {"line", report.source_line}, {"text", report.source_text}};
  if (report.cta[0] >= 0) json["cta"] = report.cta;
  if (report.warp >= 0) json["warp"] = report.warp;
  if (report.lane >= 0) json["lane"] = report.lane;
  if (report.has_address) json["address"] = report.address;
  return json;
}

}  // namespace jfa::sim
