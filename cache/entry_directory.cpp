#include "cache/entry_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "cache/directory_marker.h"
#include "cache/trim.h"

namespace jfa {
namespace {

// Somebody may delete the directory again and again while we write; not so often by accident.
constexpr int kPublishAttempts = 3;

std::string owner_and_mode(const FileInfo& info) {
  char text[64];
  std::snprintf(text, sizeof text, "owner %u, mode %04o", info.owner, info.mode);
  return text;
}

}  // namespace

EntryDirectory::EntryDirectory(std::shared_ptr<FileSystem> files, std::string root, Access access)
    : files_(std::move(files)), root_(std::move(root)), access_(access) {
  while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
}

std::string EntryDirectory::entries_path() const { return root_ + "/" + std::string(kEntriesFolder); }

std::string EntryDirectory::entry_path(const EntryName& name) const {
  return entries_path() + "/" + name.folder() + "/" + name.file();
}

std::string EntryDirectory::lock_path(const Digest& request, const std::string& compiler) const {
  return root_ + "/locks/" + entry_name(request, compiler).lock_file();
}

Status EntryDirectory::check() { return verdict(Use::kReading); }

Status EntryDirectory::check_writable() { return verdict(Use::kWriting); }

Status EntryDirectory::verdict(Use use) {
  std::string complaint;
  const auto error = examine(use, complaint);
  if (error) complaint = root_ + ": " + reason(error);
  return complaint.empty() ? Status() : Status::unavailable(complaint);
}

std::error_code EntryDirectory::examine(Use use, std::string& complaint) {
  std::string resolved;
  FileInfo info;
  // The root itself may be a symbolic link (~/.cache on another disk); what it leads to must be ours.
  auto error = files_->resolve(root_, resolved);
  if (!error) error = files_->info(resolved, info);
  if (is_missing(error)) return {};
  if (error) return error;
  if (info.type != FileType::kDirectory) {
    complaint = root_ + " is no directory";
  } else if (access_ == Access::kReadOnly) {
    if ((info.mode & 0002) != 0)
      complaint = root_ + " can be written by everybody (" + owner_and_mode(info) + ")";
  } else if (info.owner != files_->user()) {
    complaint = root_ + " belongs to another user (" + owner_and_mode(info) + ", this process is user " +
                std::to_string(files_->user()) + ")";
  } else if ((info.mode & 0022) != 0) {
    complaint = root_ + " can be written by other users (" + owner_and_mode(info) + ")";
  }
  if (!complaint.empty() || use == Use::kReading) return {};
  std::string foreign;
  error = find_foreign(*files_, root_, foreign);
  if (!error && !foreign.empty()) complaint = no_cache(root_, foreign);
  return is_missing(error) ? std::error_code() : error;
}

Lookup EntryDirectory::read(const Digest& request, const std::string& path) {
  std::string bytes;
  FileInfo info;
  const auto error = read_file(*files_, path, kMaxEntryBytes, bytes, &info);
  // Gone, or going (a stale handle of a network file system): there is nothing to move aside.
  if (is_missing(error) || error.value() == ESTALE) return {};
  Lookup lookup;
  lookup.where = path;
  if (error) {
    lookup.damage = is_wrong_kind(error) ? "no regular file" : reason(error);
    // An error of the moment (no descriptors left, say) is no reason to move a good file away.
    FileInfo named;
    if (is_wrong_kind(error) && !files_->info(path, named)) lookup.inode = named.inode;
    return lookup;
  }
  lookup.inode = info.inode;
  if (access_ == Access::kPrivate ? info.owner != files_->user() || (info.mode & 0022) != 0
                                  : (info.mode & 0002) != 0) {
    lookup.damage = "not trusted: " + owner_and_mode(info);
    return lookup;
  }
  auto entry = decode_entry(bytes);
  if (!entry.ok()) {
    lookup.damage = entry.status().message();
  } else if (request_key(entry->fields) != request) {
    lookup.damage = "holds another request, " + request_key(entry->fields).hex();
  } else {
    lookup.image = std::make_shared<const KernelImage>(std::move(entry->image));
  }
  return lookup;
}

Lookup EntryDirectory::find(const Digest& request, const std::string& compiler,
                            const std::function<bool(const KernelImage&)>& serves) {
  const EntryName name = entry_name(request, compiler);
  const std::string folder = entries_path() + "/" + name.folder();
  FileInfo info;
  if (files_->info(folder, info)) return {};
  // Their parent itself is looked at, too: entries are read by way of no symbolic link below the root.
  FileInfo entries;
  if (const auto error = files_->info(entries_path(), entries)) return {};
  if (entries.type != FileType::kDirectory) info = entries;
  if (info.type != FileType::kDirectory || (access_ == Access::kPrivate && info.owner != files_->user())) {
    Lookup lookup;
    lookup.where = folder;
    lookup.inode = info.inode;
    lookup.damage =
        info.type == FileType::kSymlink ? "a symbolic link" : "not trusted: " + owner_and_mode(info);
    return lookup;
  }
  if (!compiler.empty()) return read(request, entry_path(name));

  std::vector<std::string> names;
  if (files_->list(folder, names)) return {};
  std::sort(names.begin(), names.end());  // so that every process takes the same one
  Lookup damaged;
  for (const std::string& file : names) {
    const auto candidate = parse_entry_name(name.folder(), file);
    if (!candidate || candidate->request != request) continue;
    Lookup lookup = read(request, folder + "/" + file);
    if (lookup.image != nullptr && (!serves || serves(*lookup.image))) return lookup;
    if (!lookup.damage.empty()) damaged = lookup;
  }
  return damaged;
}

void EntryDirectory::stamp(const EntryName& name) {
  const std::string path = entry_path(name);
  const std::int64_t now_s = files_->now_s();
  FileInfo info;
  if (files_->info(path, info)) return;
  const bool fresh = info.modified_s <= now_s && info.modified_s > now_s - kStampPrecision_s;
  if (!fresh) (void)files_->set_modified(path, now_s);
}

std::error_code EntryDirectory::prepare() {
  if (const auto error = make_directories(*files_, root_)) return error;
  std::string complaint;
  if (const auto error = examine(Use::kWriting, complaint)) return error;
  if (!complaint.empty()) return {EPERM, std::generic_category()};
  for (const std::string& folder : {entries_path(), root_ + "/locks", root_ + "/tmp", root_ + "/damaged"}) {
    const auto error = files_->make_directory(folder);
    if (error && error != std::errc::file_exists) return error;
  }
  // Without it the directory still looks like ours.
  if (!is_marked(*files_, root_)) (void)mark(*files_, root_);
  return {};
}

// What is written goes nowhere else by way of a symbolic link.
std::error_code EntryDirectory::check_folders() {
  for (const std::string& folder : {entries_path(), root_ + "/tmp"}) {
    FileInfo info;
    if (const auto error = files_->info(folder, info)) return error;
    if (info.type != FileType::kDirectory) return {ENOTDIR, std::generic_category()};
  }
  return {};
}

// One attempt to publish.
std::error_code EntryDirectory::place(const EntryName& name, std::string_view bytes) {
  const std::string folder = entries_path() + "/" + name.folder();
  const std::string temporary = root_ + "/tmp/" + temporary_name();
  if (const auto error = check_folders()) return error;
  const auto made = files_->make_directory(folder);
  if (is_missing(made)) return made;
  auto error = write_file(*files_, temporary, 0600, bytes);
  if (!error) error = files_->rename(temporary, entry_path(name));
  if (error) {
    (void)files_->remove(temporary);  // what cannot be removed now is swept later
    // A folder that cannot be made may be there all the same (EROFS and EACCES come before EEXIST on some
    // systems): only now is it known to be the reason.
    return is_missing(error) && made && made != std::errc::file_exists ? made : error;
  }
  // Without this a crash of the machine may lose the entry, never corrupt it: a failure is no failure.
  (void)files_->sync_directory(folder);
  return {};
}

std::error_code EntryDirectory::publish(const Digest& request, const std::string& compiler,
                                        std::string_view bytes, std::string& path) {
  const EntryName name = entry_name(request, compiler);
  path = entry_path(name);
  bool prepared = is_marked(*files_, root_);
  std::error_code error;
  for (int attempt = 0; attempt < kPublishAttempts; ++attempt) {
    error = prepared ? std::error_code() : prepare();
    if (!error) error = place(name, bytes);
    if (!is_missing(error)) break;
    prepared = false;
  }
  return error;
}

void EntryDirectory::move_aside(const std::string& path, std::uint64_t inode) {
  FileInfo info;
  if (files_->info(path, info) || info.inode != inode) return;
  if (prepare()) return;
  const std::string aside = root_ + "/damaged/" + path.substr(path.rfind('/') + 1) + "." + unique_name();
  // Its stamp is of its last use, which may be long ago.
  if (!files_->rename(path, aside)) (void)files_->set_modified(aside, files_->now_s());
}

std::error_code EntryDirectory::try_lock(const Digest& request, const std::string& compiler,
                                         std::unique_ptr<FileLock>& lock) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string note = "process " + std::to_string(::getpid()) + " on " + host + "\n";
  const std::string path = lock_path(request, compiler);
  const auto error = files_->try_lock(path, note, lock);
  if (!is_missing(error)) return error;
  if (const auto failed = prepare()) return failed;
  return files_->try_lock(path, note, lock);
}

std::error_code EntryDirectory::probe() {
  if (const auto error = prepare()) return error;
  const std::string path = root_ + "/tmp/" + temporary_name();
  const auto error = write_file(*files_, path, 0600, "");
  (void)files_->remove(path);
  return error;
}

}  // namespace jfa
