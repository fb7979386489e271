#include "cache/entry_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <random>

namespace jfa {
namespace {

constexpr std::string_view kSuffix = ".entry";
constexpr std::size_t kTagDigits = 16;
// The stamp that trimming goes by; rewriting it more often would cost a write a hit.
constexpr std::int64_t kTouchInterval_s = 3600;

constexpr std::string_view kCacheDirTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Compiled kernels. Everything here can be made again; see https://bford.info/cachedir/\n";

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::string owner_and_mode(const FileInfo& info) {
  char text[64];
  std::snprintf(text, sizeof text, "owner %u, mode %04o", info.owner, info.mode);
  return text;
}

// What read_file() reports of symbolic links, directories, FIFOs and files no entry is as large as.
bool wrong_kind(std::error_code error) {
  return error.value() == ELOOP || error.value() == EISDIR || error.value() == EINVAL ||
         error.value() == EFBIG;
}

}  // namespace

std::string EntryName::folder() const { return request.hex().substr(0, 2); }
std::string EntryName::file() const {
  return request.hex().substr(2) + "-" + compiler_tag + std::string(kSuffix);
}

EntryName entry_name(const Digest& request, const std::string& compiler) {
  return {request, sha256(compiler).hex().substr(0, kTagDigits)};
}

std::optional<EntryName> parse_entry_name(const std::string& folder, const std::string& file) {
  constexpr std::size_t kRequestDigits = 2 * Digest::kBytes - 2;
  if (file.size() != kRequestDigits + 1 + kTagDigits + kSuffix.size()) return std::nullopt;
  if (folder.size() != 2 || file[kRequestDigits] != '-' || !file.ends_with(kSuffix)) return std::nullopt;
  const auto request = parse_digest(folder + file.substr(0, kRequestDigits));
  const std::string tag = file.substr(kRequestDigits + 1, kTagDigits);
  if (!request || !is_hex(tag)) return std::nullopt;
  return EntryName{*request, tag};
}

EntryDirectory::EntryDirectory(std::shared_ptr<FileSystem> files, std::string root, Access access)
    : files_(std::move(files)), root_(std::move(root)), access_(access) {
  while (root_.size() > 1 && root_.ends_with('/')) root_.pop_back();
}

std::string EntryDirectory::entry_path(const EntryName& name) const {
  return root_ + "/v1/" + name.folder() + "/" + name.file();
}

std::string EntryDirectory::lock_path(const Digest& request, const std::string& compiler) const {
  return root_ + "/locks/" + request.hex() + "-" + entry_name(request, compiler).compiler_tag + ".lock";
}

std::string EntryDirectory::unique_name() const {
  // Process ids repeat across the machines that share a directory; 64 random bits do not.
  std::random_device random;
  char text[64];
  std::snprintf(text, sizeof text, "%d-%08x%08x", static_cast<int>(::getpid()), random(), random());
  return text;
}

Status EntryDirectory::check() {
  std::string resolved;
  FileInfo info;
  // The root itself may be a symbolic link (~/.cache on another disk); what it leads to must be ours.
  auto error = files_->resolve(root_, resolved);
  if (!error) error = files_->info(resolved, info);
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) return Status::unavailable(root_ + ": " + reason(error));
  if (info.type != FileType::kDirectory) return Status::unavailable(root_ + " is no directory");
  if (access_ == Access::kReadOnly) {
    if ((info.mode & 0002) == 0) return {};
    return Status::unavailable(root_ + " can be written by everybody (" + owner_and_mode(info) + ")");
  }
  if (info.owner != files_->user()) {
    return Status::unavailable(root_ + " belongs to another user (" + owner_and_mode(info) +
                               ", this process is user " + std::to_string(files_->user()) + ")");
  }
  if ((info.mode & 0022) != 0) {
    return Status::unavailable(root_ + " can be written by other users (" + owner_and_mode(info) + ")");
  }
  return {};
}

Lookup EntryDirectory::read(const Digest& request, const std::string& path) {
  std::string bytes;
  FileInfo info;
  const auto error = read_file(*files_, path, kMaxEntryBytes, bytes, &info);
  // Gone, or going (a stale handle of a network file system): there is nothing to move aside.
  if (error == std::errc::no_such_file_or_directory || error.value() == ESTALE) return {};
  Lookup lookup;
  lookup.where = path;
  if (error) {
    lookup.damage = wrong_kind(error) ? "no regular file" : reason(error);
    // An error of the moment (no descriptors left, say) is no reason to move a good file away.
    FileInfo named;
    if (wrong_kind(error) && !files_->info(path, named)) lookup.inode = named.inode;
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
    const std::int64_t now_s = files_->now_s();
    const bool stale = now_s - info.modified_s > kTouchInterval_s || info.modified_s > now_s;
    if (access_ == Access::kPrivate && stale) (void)files_->set_modified(path, now_s);
  }
  return lookup;
}

Lookup EntryDirectory::find(const Digest& request, const std::string& compiler) {
  const EntryName name = entry_name(request, compiler);
  const std::string folder = root_ + "/v1/" + name.folder();
  FileInfo info;
  if (files_->info(folder, info)) return {};
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
    if (lookup.image != nullptr) return lookup;
    if (!lookup.damage.empty()) damaged = lookup;
  }
  return damaged;
}

std::error_code EntryDirectory::prepare() {
  if (const auto error = make_directories(*files_, root_)) return error;
  if (!check().ok()) return {EPERM, std::generic_category()};
  for (const char* folder : {"/v1", "/locks", "/tmp", "/damaged"}) {
    const auto error = files_->make_directory(root_ + folder);
    if (error && error != std::errc::file_exists) return error;
  }
  const std::string tag = root_ + "/CACHEDIR.TAG";
  FileInfo info;
  if (files_->info(tag, info)) (void)write(tag, kCacheDirTag);  // a courtesy: its failure is nobody's problem
  return {};
}

std::error_code EntryDirectory::write(const std::string& path, std::string_view bytes) {
  std::unique_ptr<WritableFile> file;
  if (const auto error = files_->create(path, 0600, file)) return error;
  if (const auto error = file->append(bytes)) return error;
  return file->sync();
}

std::error_code EntryDirectory::publish(const Digest& request, const std::string& compiler,
                                        std::string_view bytes, std::string& path) {
  const EntryName name = entry_name(request, compiler);
  const std::string folder = root_ + "/v1/" + name.folder();
  const std::string temporary = root_ + "/tmp/" + unique_name() + ".tmp";
  path = entry_path(name);

  auto error = write(temporary, bytes);
  if (error == std::errc::no_such_file_or_directory) {
    if ((error = prepare())) return error;
    error = write(temporary, bytes);
  }
  if (!error) {
    error = files_->rename(temporary, path);
    if (error == std::errc::no_such_file_or_directory) {
      error = files_->make_directory(folder);
      if (!error || error == std::errc::file_exists) error = files_->rename(temporary, path);
    }
  }
  if (error) {
    (void)files_->remove(temporary);  // what cannot be removed now is swept later
    return error;
  }
  // Without this a crash of the machine may lose the entry, never corrupt it: a failure is no failure.
  (void)files_->sync_directory(folder);
  return {};
}

void EntryDirectory::move_aside(const std::string& path, std::uint64_t inode) {
  FileInfo info;
  if (files_->info(path, info) || info.inode != inode) return;
  (void)prepare();
  const std::string name = path.substr(path.rfind('/') + 1);
  (void)files_->rename(path, root_ + "/damaged/" + name + "." + unique_name());
}

std::error_code EntryDirectory::try_lock(const Digest& request, const std::string& compiler,
                                         std::unique_ptr<FileLock>& lock) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string note = "process " + std::to_string(::getpid()) + " on " + host + "\n";
  const std::string path = lock_path(request, compiler);
  const auto error = files_->try_lock(path, note, lock);
  if (error != std::errc::no_such_file_or_directory) return error;
  if (const auto failed = prepare()) return failed;
  return files_->try_lock(path, note, lock);
}

std::error_code EntryDirectory::probe() {
  if (const auto error = prepare()) return error;
  const std::string path = root_ + "/tmp/" + unique_name() + ".tmp";
  const auto error = write(path, "");
  (void)files_->remove(path);
  return error;
}

}  // namespace jfa
