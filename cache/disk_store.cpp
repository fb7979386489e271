#include "cache/disk_store.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "jfa/version.h"

namespace jfa {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = CacheEvent::Kind;

bool disk_full(std::error_code error) {
  return error == std::errc::no_space_on_device || error.value() == EDQUOT;
}

Digest content(const KernelImage& image) { return Sha256().append(image.cubin).append(image.ptx).finish(); }

// Will not change while the process runs.
bool lasting(std::error_code error) {
  return error == std::errc::read_only_file_system || error == std::errc::permission_denied ||
         error == std::errc::operation_not_permitted || error == std::errc::not_a_directory;
}

std::string held_by(FileSystem& files, const std::string& lock_path) {
  std::string note;
  if (read_file(files, lock_path, 512, note) || note.empty()) return "another process";
  return note.substr(0, note.find('\n'));
}

}  // namespace

DiskStore::DiskStore(const CacheOptions& options, Observer& observer)
    : options_(options),
      observer_(observer),
      files_(options.file_system != nullptr ? options.file_system : posix_file_system()) {
  if (!options_.directory.empty()) {
    EntryDirectory directory(files_, options_.directory, EntryDirectory::Access::kPrivate);
    const Status status = options_.write ? directory.check_writable() : directory.check();
    if (status.ok()) {
      directory_ = std::move(directory);
      writable_ = options_.write;
      if (!options_.write) not_writable_ = "opened for reading only";
    } else {
      unusable_ = status.message();
    }
  } else {
    unusable_ = options_.no_directory_reason;
  }
  if (!unusable_.empty()) {
    observer_.degrade("directory", options_.directory,
                      "no cache directory: " + unusable_ + "; kernels are kept in memory only");
  }
  for (const std::string& path : options_.read_only_directories) {
    EntryDirectory directory(files_, path, EntryDirectory::Access::kReadOnly);
    FileInfo info;
    std::string resolved;
    Status status = directory.check();
    if (const auto error = files_->resolve(path, resolved); status.ok() && error) {
      status = Status::unavailable(path + ": " + reason(error));
    }
    if (status.ok()) {
      read_only_.push_back(std::move(directory));
    } else {
      observer_.degrade(path, path, "read-only cache directory left out: " + status.message());
    }
  }
  for (const std::string& path : options_.bundles) {
    auto bundle = Bundle::open(files_, path);
    if (bundle.ok()) {
      bundles_.push_back(std::move(*bundle));
    } else {
      observer_.degrade(path, path, "left out: " + bundle.status().message());
    }
  }
}

void DiskStore::report_damage(const Lookup& lookup, const Digest& request, const std::string& name) {
  observer_.count(&CacheStats::damaged);
  observer_.tell({Kind::kDamage, request.hex(), name, lookup.where, lookup.damage});
  observer_.log(LogLevel::kWarning, "cached kernel " + lookup.where + " is not used: " + lookup.damage);
}

SharedImage DiskStore::report_hit(const Lookup& lookup, std::uint64_t CacheStats::*counter,
                                  const Digest& request, const std::string& name) {
  observer_.count(counter);
  observer_.tell({Kind::kHit, request.hex(), name, lookup.where, {}});
  return lookup.image;
}

bool DiskStore::is_refused(const Digest& request, const KernelImage& image) {
  const std::lock_guard lock(mutex_);
  const auto refused = refused_.find(request);
  return refused != refused_.end() && refused->second.count(content(image)) != 0;
}

void DiskStore::note_use(const Digest& request, const KernelImage& image) {
  if (directory_ && writable_) directory_->stamp(entry_name(request, image.compiler));
}

SharedImage DiskStore::find(const Digest& request, const std::string& name) {
  const auto accepted = [&](const KernelImage& image) { return !is_refused(request, image); };
  const auto serves = [&](const Lookup& lookup) {
    return lookup.image != nullptr && accepted(*lookup.image);
  };
  if (directory_) {
    // Damage is reported by look_again(), under the lock, where it can be moved aside.
    const Lookup lookup = directory_->find(request, options_.compiler, accepted);
    if (serves(lookup)) {
      note_use(request, *lookup.image);
      return report_hit(lookup, &CacheStats::directory_hits, request, name);
    }
  }
  for (EntryDirectory& directory : read_only_) {
    const Lookup lookup = directory.find(request, "", accepted);
    if (serves(lookup)) return report_hit(lookup, &CacheStats::read_only_hits, request, name);
    if (!lookup.damage.empty()) report_damage(lookup, request, name);
  }
  for (const auto& bundle : bundles_) {
    const Lookup lookup = bundle->find(request);
    if (serves(lookup)) return report_hit(lookup, &CacheStats::bundle_hits, request, name);
    if (!lookup.damage.empty()) report_damage(lookup, request, name);
  }
  return nullptr;
}

SharedImage DiskStore::look_again(const Digest& request, const std::string& name) {
  if (!directory_) return nullptr;
  const Lookup lookup = directory_->find(request, options_.compiler);
  if (lookup.image != nullptr && is_refused(request, *lookup.image)) return nullptr;
  if (lookup.image != nullptr) return report_hit(lookup, &CacheStats::directory_hits, request, name);
  if (!lookup.damage.empty()) {
    report_damage(lookup, request, name);
    if (writable_ && lookup.inode != 0) directory_->move_aside(lookup.where, lookup.inode);
  }
  return nullptr;
}

std::unique_ptr<FileLock> DiskStore::wait_for_lock(const Digest& request, const std::string& name) {
  std::unique_ptr<FileLock> lock;
  if (!directory_ || !writable_) return lock;
  const auto start = Clock::now();
  const auto deadline = start + std::chrono::milliseconds(options_.lock_wait_ms);
  const auto patience = start + std::chrono::milliseconds(options_.slow_compile_ms);
  auto pause = std::chrono::milliseconds(1);
  bool told = false;
  bool logged = false;
  for (;;) {
    // An error other than "somebody has it" means a file system without locks, or a disk that cannot be
    // written: then two processes may compile the same kernel, and both are right.
    if (directory_->try_lock(request, options_.compiler, lock) != std::errc::operation_would_block)
      return lock;
    const std::string path = directory_->lock_path(request, options_.compiler);
    if (!told) {
      told = true;
      observer_.count(&CacheStats::lock_waits);
      observer_.tell({Kind::kWait, request.hex(), name, path, held_by(*files_, path)});
    }
    const auto now = Clock::now();
    if (now >= deadline) {
      observer_.count(&CacheStats::lock_timeouts);
      observer_.log(LogLevel::kWarning, "compiling " + name + " here too: " + held_by(*files_, path) +
                                            " has held " + path + " for longer than " +
                                            std::to_string(options_.lock_wait_ms) + " ms");
      return nullptr;
    }
    if (!logged && now >= patience) {
      logged = true;
      observer_.log(LogLevel::kNotice, "waiting for " + held_by(*files_, path) + ", which compiles " + name);
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(pause, deadline - now));
    pause = std::min(2 * pause, std::chrono::milliseconds(50));
  }
}

void DiskStore::publish_failed(std::error_code error, const std::string& path) {
  observer_.count(&CacheStats::publish_failures);
  // A directory that has become another's has a better reason than EPERM.
  const Status status = directory_->check_writable();
  const std::string why = status.ok() ? path + ": " + reason(error) : status.message();
  if (lasting(error)) {
    writable_ = false;
    const std::lock_guard lock(mutex_);
    not_writable_ = why;
  }
  observer_.degrade("publish", path, "cannot write " + why + "; new kernels are kept in memory only");
}

std::string DiskStore::publish(const CompileRequest& request, const Digest& key, const KernelImage& image) {
  if (!directory_ || !writable_) return {};
  const auto bytes = encode_entry({fields_of(request), request.source.size(), image, version_and_commit()});
  if (!bytes.ok()) {
    observer_.count(&CacheStats::publish_failures);
    observer_.degrade("encode", request.name, "not cached: " + bytes.status().message());
    return {};
  }
  if (image.compiler != options_.compiler && !options_.compiler.empty()) {
    observer_.degrade("compiler", request.name,
                      "compiled by " + image.compiler + " although " + options_.compiler +
                          " was expected; it will be compiled again next time");
  }
  std::string path;
  auto error = directory_->publish(key, image.compiler, *bytes, path);
  if (disk_full(error)) {
    TrimPolicy policy = trim_policy(options_.max_bytes);
    policy.make_room_bytes = 2 * bytes->size();
    report_evictions(trim(*directory_, policy));
    error = directory_->publish(key, image.compiler, *bytes, path);
  }
  if (error) {
    publish_failed(error, path);
    return {};
  }
  observer_.count(&CacheStats::published);
  observer_.count(&CacheStats::published_bytes, bytes->size());
  observer_.tell({Kind::kPublish, key.hex(), request.name, path, {}});
  published_bytes_ += bytes->size();
  return path;
}

void DiskStore::report_evictions(const TrimOutcome& outcome) {
  observer_.count(&CacheStats::evicted, outcome.evicted.size());
  observer_.count(&CacheStats::evicted_bytes, outcome.evicted_bytes);
  for (const StoredEntry& entry : outcome.evicted)
    observer_.tell({Kind::kEvict, entry.name.request.hex(), {}, entry.path, {}});
}

void DiskStore::trim_if_due() {
  const std::uint64_t bytes = published_bytes_.exchange(0);
  if (bytes == 0 || !directory_ || !writable_) return;
  if (!note_published(*directory_, bytes, options_.max_bytes)) return;
  report_evictions(trim(*directory_, trim_policy(options_.max_bytes)));
}

void DiskStore::discard(const Digest& request, const std::string& name, const KernelImage& image,
                        std::string_view why) {
  const Digest refused = content(image);
  {
    const std::lock_guard lock(mutex_);
    refused_[request].insert(refused);
  }
  const auto report = [&](Lookup lookup) {
    if (lookup.image == nullptr || content(*lookup.image) != refused) return false;
    lookup.damage = "the driver refuses it: " + std::string(why);
    report_damage(lookup, request, name);
    return true;
  };
  if (directory_) {
    const Lookup lookup = directory_->find(request, image.compiler);
    if (report(lookup) && writable_) directory_->move_aside(lookup.where, lookup.inode);
  }
  for (EntryDirectory& directory : read_only_) report(directory.find(request, ""));
  for (const auto& bundle : bundles_) report(bundle->find(request));
}

KernelCache::State DiskStore::state() {
  KernelCache::State state;
  if (!directory_) {
    state.reason = unusable_.empty() ? "switched off" : unusable_;
    return state;
  }
  state.directory = directory_->root();
  if (writable_) {
    const auto error = directory_->probe();
    state.writable = !error;
    const Status status = directory_->check_writable();
    if (error) state.reason = status.ok() ? reason(error) : status.message();
  } else {
    const std::lock_guard lock(mutex_);
    state.reason = not_writable_;
  }
  return state;
}

std::vector<std::string> DiskStore::places(const Digest& request) {
  std::vector<std::string> lines;
  const auto line = [&](const std::string& place, const Lookup& lookup) {
    std::string found = "not there";
    if (lookup.image != nullptr) {
      found = is_refused(request, *lookup.image) ? "not used: the driver refuses it"
                                                 : "found, made by " + lookup.image->compiler;
    } else if (!lookup.damage.empty()) {
      found = "not used: " + lookup.damage;
    }
    lines.push_back(place + ": " + found);
  };
  if (directory_) {
    line(directory_->root(), directory_->find(request, options_.compiler));
  } else {
    lines.push_back("no cache directory: " + (unusable_.empty() ? std::string("switched off") : unusable_));
  }
  for (EntryDirectory& directory : read_only_) line(directory.root(), directory.find(request, ""));
  for (const auto& bundle : bundles_) line(bundle->path(), bundle->find(request));
  return lines;
}

std::vector<std::string> DiskStore::relatives(const CompileRequest& request) {
  const Explanation wanted = explain(request, options_.compiler);
  std::vector<std::string> lines;
  const auto compare = [&](const Result<Entry>& entry, const std::string& where) {
    if (!entry.ok() || entry->image.name != request.name) return;
    for (const std::string& field : difference(explain(*entry), wanted)) {
      if (!field.starts_with("request: ")) lines.push_back(where + " differs in " + field);
    }
  };
  const auto compare_all = [&](EntryDirectory& directory) {
    for (const StoredEntry& stored : stored_entries(directory)) compare(peek(*files_, stored), stored.path);
  };
  if (directory_) compare_all(*directory_);
  for (EntryDirectory& directory : read_only_) compare_all(directory);
  for (const auto& bundle : bundles_) {
    for (const BundleRow& row : bundle->rows()) compare(bundle->peek(row), bundle->path());
  }
  return lines;
}

}  // namespace jfa
