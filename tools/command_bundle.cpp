// jfa bundle: many kernels in one file, for machines without a compiler.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/output_file.h"
#include "base/standard_streams.h"
#include "cache/bundle.h"
#include "cache/maintenance.h"
#include "generator/spec.h"
#include "tools/command_cache.h"
#include "tools/command_line.h"
#include "tools/option_checks.h"
#include "tools/table.h"

namespace jfa::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBundleCommand = "bundle";

struct BundleOptions {
  std::string output;
  std::string input;
  std::vector<std::string> inputs;  // to merge
  std::string from_cache;
  std::vector<std::string> targets;
  std::string compiler;
  bool json = false;
};

std::string absolute(const std::string& path) { return std::filesystem::absolute(path).string(); }

void tell_json(const Json& json) { tell(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"); }

// Writes a bundle of what `fill` adds.
int write(const BundleOptions& options, const std::function<Status(BundleWriter&)>& fill) {
  Result<OutputFile> output = OutputFile::open(options.output);
  if (!output) return fail(kBundleCommand, output.status());
  BundleWriter writer([&](std::string_view bytes) { return output->append(bytes); });
  Status status = fill(writer);
  if (status.ok()) status = writer.finish();
  if (status.ok()) status = output->commit();
  if (!status.ok()) return fail(kBundleCommand, status);
  if (options.json) {
    tell_json({{"path", options.output}, {"entries", writer.entries()}, {"bytes", writer.bytes()}});
  } else {
    tell(fmt::format("{}: {} kernels, {}\n", output->name(), writer.entries(), human_bytes(writer.bytes())));
  }
  return kSuccess;
}

int create(const BundleOptions& options) {
  CacheCommandOptions from;
  from.directory = options.from_cache;
  const auto settings = cache_options(from);
  if (!settings) return fail(kBundleCommand, settings.status());
  if (settings->directory.empty())
    return fail(kBundleCommand, Status::unavailable("there is no cache directory"));
  EntryDirectory directory(posix_file_system(), settings->directory, EntryDirectory::Access::kPrivate);
  if (const Status status = directory.check(); !status.ok()) return fail(kBundleCommand, status);
  for (const std::string& target : options.targets)
    if (const auto known = parse_target(target); !known) return fail(kBundleCommand, known.status());
  return write(options, [&](BundleWriter& writer) {
    return add_directory(directory, writer, [&](const Entry& entry) {
      const bool target = options.targets.empty() || std::find(options.targets.begin(), options.targets.end(),
                                                               entry.image.target) != options.targets.end();
      return target && (options.compiler.empty() || options.compiler == entry.image.compiler);
    });
  });
}

int merge(const BundleOptions& options) {
  std::vector<std::shared_ptr<const Bundle>> bundles;
  for (const std::string& path : options.inputs) {
    auto bundle = Bundle::open(posix_file_system(), absolute(path));
    if (!bundle) return fail(kBundleCommand, bundle.status());
    bundles.push_back(std::move(*bundle));
  }
  return write(options, [&](BundleWriter& writer) { return merge_bundles(bundles, writer); });
}

int list_all(const BundleOptions& options) {
  const auto bundle = Bundle::open(posix_file_system(), absolute(options.input));
  if (!bundle) return fail(kBundleCommand, bundle.status());
  Table table({"NAME", "TARGET", "SIZE", "REQUEST", "COMPILER"});
  Json json = Json::array();
  for (const BundleRow& row : (*bundle)->rows()) {
    const auto entry = (*bundle)->peek(row);
    const std::string name = entry ? entry->image.name : "(unreadable)";
    const std::string target = entry ? entry->image.target : "";
    const std::string compiler = entry ? entry->image.compiler : "";
    table.add({name, target, human_bytes(row.bytes), row.request.hex().substr(0, 16), compiler});
    json.push_back({{"name", name},
                    {"target", target},
                    {"bytes", row.bytes},
                    {"request", row.request.hex()},
                    {"compiler", compiler},
                    {"written_by", entry ? entry->written_by : ""}});
  }
  if (options.json) {
    tell_json(json);
  } else {
    fmt::print("{}", table.text());
  }
  return kSuccess;
}

int verify_all(const BundleOptions& options) {
  const auto bundle = Bundle::open(posix_file_system(), absolute(options.input));
  if (!bundle) return fail(kBundleCommand, bundle.status());
  const std::vector<BundleDamage> damaged = verify(**bundle);
  if (options.json) {
    Json json = Json::array();
    for (const BundleDamage& entry : damaged) {
      json.push_back({{"request", entry.row.request.hex()}, {"damage", entry.damage}});
    }
    tell_json({{"entries", (*bundle)->rows().size()}, {"damaged", json}});
  } else {
    for (const BundleDamage& entry : damaged) fmt::print("{}: {}\n", entry.row.request.hex(), entry.damage);
    fmt::print("{} kernels, {} damaged\n", (*bundle)->rows().size(), damaged.size());
  }
  return damaged.empty() ? kSuccess : kNegative;
}

}  // namespace

void add_bundle_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<BundleOptions>();
  CLI::App& bundle =
      *app.add_subcommand("bundle", "Many kernels in one file, for machines without a compiler");
  bundle.require_subcommand(1);
  bundle.footer("Kernels of a bundle are used where JFA_BUNDLES names its path.");
  bundle.add_flag("--json", options->json, "for programs");
  const auto add = [&](const char* name, const char* description, int (*run)(const BundleOptions&)) {
    CLI::App* command = bundle.add_subcommand(name, description);
    command->fallthrough();
    command->callback([options, run, &exit_code] { exit_code = run(*options); });
    return command;
  };
  const auto add_output = [&](CLI::App* command) {
    command->add_option("-o,--output", options->output, "bundle to write; - is stdout")
        ->required()
        ->type_name("FILE");
  };
  const auto add_input = [&](CLI::App* command) {
    command->add_option("FILE", options->input, "bundle")->required()->type_name("FILE");
  };
  CLI::App* creation = add("create", "Pack a cache directory", create);
  add_output(creation);
  creation->add_option("--from-cache", options->from_cache, "default: the directory that is in use")
      ->type_name("DIR");
  list(creation->add_option("--target,--targets", options->targets, "only these targets"))
      ->type_name("TARGET");
  creation->add_option("--compiler", options->compiler, "only what this compiler made")
      ->type_name("IDENTITY");
  add_input(add("list", "Every kernel", list_all));
  add_input(add("verify", "Check every kernel; exit status 1 if one is damaged", verify_all));
  CLI::App* merging = add("merge", "One bundle with the kernels of several", merge);
  add_output(merging);
  merging->add_option("FILES", options->inputs, "bundles, shards for example")->required()->type_name("FILE");
}

}  // namespace jfa::tools
