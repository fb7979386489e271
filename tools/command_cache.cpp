// jfa cache: what is in the cache directory, and housekeeping.
#include "tools/command_cache.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache/maintenance.h"
#include "tools/command_line.h"
#include "tools/table.h"

namespace jfa::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kCacheCommand = "cache";

struct OpenDirectory {
  EntryDirectory entries;
  CacheOptions options;
};

// The directory that is meant, if it may be used.
Result<OpenDirectory> open_directory(const CacheCommandOptions& given) {
  auto options = cache_options(given);
  if (!options) return options.status();
  if (options->directory.empty()) {
    const std::string& reason = options->no_directory_reason;
    return Status::unavailable("there is no cache directory: " + (reason.empty() ? "JFA_CACHE=off" : reason));
  }
  EntryDirectory entries(posix_file_system(), options->directory, EntryDirectory::Access::kPrivate);
  if (const Status status = entries.check_writable(); !status.ok()) return status;
  return OpenDirectory{std::move(entries), std::move(*options)};
}

std::string short_key(const Digest& digest) { return digest.hex().substr(0, 16); }

void print(const Json& json) { fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace)); }

int list(const CacheCommandOptions& options) {
  auto directory = open_directory(options);
  if (!directory) return fail(kCacheCommand, directory.status());
  FileSystem& files = directory->entries.files();
  Table table({"NAME", "TARGET", "SIZE", "COMPILE", "USED", "REQUEST", "COMPILER"});
  Json json = Json::array();
  for (const StoredEntry& stored : stored_entries(directory->entries)) {
    const auto entry = peek(files, stored);
    const std::string name = entry ? entry->image.name : "(unreadable)";
    const std::string target = entry ? entry->image.target : "";
    const std::string compiler = entry ? entry->image.compiler : stored.name.compiler_tag;
    const double compile_ms = entry ? entry->image.compile_ms : 0;
    table.add({name, target, human_bytes(stored.bytes), fmt::format("{:.1f} s", compile_ms / 1000),
               human_age(files.now_s() - stored.last_use_s), short_key(stored.name.request), compiler});
    json.push_back({{"name", name},
                    {"target", target},
                    {"bytes", stored.bytes},
                    {"compile_ms", compile_ms},
                    {"last_use_s", stored.last_use_s},
                    {"request", stored.name.request.hex()},
                    {"compiler", compiler},
                    {"written_by", entry ? entry->written_by : ""},
                    {"path", stored.path}});
  }
  if (options.json) {
    print(json);
  } else {
    fmt::print("{}", table.text());
  }
  return kSuccess;
}

struct Share {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

int stats(const CacheCommandOptions& options) {
  auto directory = open_directory(options);
  if (!directory) return fail(kCacheCommand, directory.status());
  EntryDirectory& entries = directory->entries;
  std::map<std::string, Share> by_target;
  std::map<std::string, Share> by_compiler;
  Share all;
  for (const StoredEntry& stored : stored_entries(entries)) {
    const auto entry = peek(entries.files(), stored);
    for (Share* share : {&all, &by_target[entry ? entry->image.target : "(unreadable)"],
                         &by_compiler[entry ? entry->image.compiler : "(unreadable)"]}) {
      ++share->entries;
      share->bytes += stored.bytes;
    }
  }
  const auto [temporaries, damaged] = leftovers(entries);
  const std::uint64_t cap = directory->options.max_bytes;
  if (options.json) {
    const auto shares = [](const std::map<std::string, Share>& by) {
      Json json = Json::object();
      for (const auto& [what, share] : by) json[what] = {{"entries", share.entries}, {"bytes", share.bytes}};
      return json;
    };
    print({{"directory", entries.root()},
           {"entries", all.entries},
           {"bytes", all.bytes},
           {"max_bytes", cap},
           {"by_target", shares(by_target)},
           {"by_compiler", shares(by_compiler)},
           {"temporaries", temporaries},
           {"damaged", damaged}});
    return kSuccess;
  }
  fmt::print("directory    {}\nentries      {}\nsize         {} of {}\n", entries.root(), all.entries,
             human_bytes(all.bytes), cap == 0 ? "any size" : human_bytes(cap));
  for (const auto& [target, share] : by_target) {
    fmt::print("target       {}: {} entries, {}\n", target, share.entries, human_bytes(share.bytes));
  }
  for (const auto& [compiler, share] : by_compiler) {
    fmt::print("compiler     {}: {} entries, {}\n", compiler, share.entries, human_bytes(share.bytes));
  }
  fmt::print("temporaries  {}\ndamaged      {} moved aside\n", temporaries, damaged);
  return kSuccess;
}

int verify_all(const CacheCommandOptions& options) {
  auto directory = open_directory(options);
  if (!directory) return fail(kCacheCommand, directory.status());
  const std::size_t count = stored_entries(directory->entries).size();
  const std::vector<DamagedEntry> damaged = verify(directory->entries, options.move_aside);
  if (options.json) {
    Json json = Json::array();
    for (const DamagedEntry& entry : damaged)
      json.push_back({{"path", entry.path}, {"damage", entry.damage}});
    print({{"entries", count}, {"damaged", json}});
  } else {
    for (const DamagedEntry& entry : damaged) fmt::print("{}: {}\n", entry.path, entry.damage);
    fmt::print("{} entries, {} damaged{}\n", count, damaged.size(),
               damaged.empty() || !options.move_aside ? "" : ", moved aside");
  }
  return damaged.empty() ? kSuccess : kNegative;
}

int trim_now(const CacheCommandOptions& options) {
  auto directory = open_directory(options);
  if (!directory) return fail(kCacheCommand, directory.status());
  const TrimOutcome outcome = trim(directory->entries, trim_policy(directory->options.max_bytes));
  if (outcome.busy)
    return fail(kCacheCommand, Status::unavailable("another process is trimming the directory"));
  if (options.json) {
    print({{"entries", outcome.entries},
           {"bytes", outcome.bytes},
           {"evicted", outcome.evicted.size()},
           {"evicted_bytes", outcome.evicted_bytes},
           {"swept", outcome.swept}});
  } else {
    fmt::print("{} entries, {}; evicted {}, {}; swept {} leftovers\n", outcome.entries,
               human_bytes(outcome.bytes), outcome.evicted.size(), human_bytes(outcome.evicted_bytes),
               outcome.swept);
  }
  return kSuccess;
}

int clear_all(const CacheCommandOptions& options) {
  auto directory = open_directory(options);
  if (!directory) return fail(kCacheCommand, directory.status());
  const ClearOutcome outcome = clear(directory->entries);
  if (options.json) {
    print({{"removed", outcome.removed}, {"bytes", outcome.bytes}, {"failed", outcome.failed}});
  } else {
    fmt::print("removed {} files, {}\n", outcome.removed, human_bytes(outcome.bytes));
  }
  if (outcome.failed == 0) return kSuccess;
  note(kCacheCommand,
       fmt::format("{} files could not be removed, the first is {}", outcome.failed, outcome.failure));
  return kNegative;
}

}  // namespace

Result<CacheOptions> cache_options(const CacheCommandOptions& options) {
  // The command line stands in for the variables, so that both understand the same values.
  struct StandIn {
    std::string_view variable;
    std::string_view option;
    const std::string* value;
  };
  const StandIn stand_ins[] = {{"JFA_CACHE_MAX_BYTES", "--max-bytes", &options.max_bytes},
                               {"JFA_CACHE_DIR", "--cache-dir", &options.directory}};
  auto result = cache_options_from_environment([&](const char* name) -> const char* {
    for (const StandIn& stand_in : stand_ins) {
      if (stand_in.variable == name && !stand_in.value->empty()) return stand_in.value->c_str();
    }
    return std::getenv(name);
  });
  if (result) return result;
  const std::string message = result.status().message();
  for (const StandIn& stand_in : stand_ins) {
    if (!stand_in.value->empty() && message.starts_with(stand_in.variable))
      return Status(result.status().kind(),
                    std::string(stand_in.option) + message.substr(stand_in.variable.size()));
  }
  return result;
}

void add_cache_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<CacheCommandOptions>();
  CLI::App& cache = *app.add_subcommand("cache", "Show and keep the cache directory");
  cache.require_subcommand(1);
  cache.add_option("--cache-dir", options->directory, "default: the directory that is in use")
      ->type_name("DIR");
  cache.add_flag("--json", options->json, "for programs");
  const auto add = [&](const char* name, const char* description, int (*run)(const CacheCommandOptions&)) {
    CLI::App* command = cache.add_subcommand(name, description);
    command->fallthrough();
    command->callback([options, run, &exit_code] { exit_code = run(*options); });
    return command;
  };
  add("list", "Every entry", list);
  add("stats", "Entries and sizes by target and compiler", stats);
  add("verify", "Check every entry; exit status 1 if one is damaged", verify_all)
      ->add_flag("--move-aside", options->move_aside, "take the damaged ones out of use");
  add("trim", "Evict the least recently used entries above the cap, sweep leftovers", trim_now)
      ->add_option("--max-bytes", options->max_bytes, "default: $JFA_CACHE_MAX_BYTES, else 1G")
      ->type_name("BYTES");
  add("clear", "Remove every entry", clear_all);
  add_explain_command(cache, options, exit_code);
}

}  // namespace jfa::tools
