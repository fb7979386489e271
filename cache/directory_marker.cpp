#include "cache/directory_marker.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "cache/entry_names.h"

namespace jfa {
namespace {

// Backup programs know a cache by the first line; we know ours by all of it.
constexpr std::string_view kTagText =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Compiled kernels. Everything here can be made again; see https://bford.info/cachedir/\n";
constexpr std::string_view kTagName = "CACHEDIR.TAG";
constexpr std::uint64_t kMaxTagBytes = 4096;

enum class Tag { kWhole, kTorn, kMissing, kForeign };

// The error is one of the moment: it says nothing about the tag.
std::error_code read_tag(FileSystem& files, const std::string& root, Tag& tag) {
  std::string text;
  const auto error = read_file(files, root + "/" + std::string(kTagName), kMaxTagBytes, text);
  if (is_missing(error)) {
    tag = Tag::kMissing;
  } else if (is_wrong_kind(error)) {
    tag = Tag::kForeign;
  } else if (error) {
    return error;
  } else if (text.starts_with(kTagText)) {
    tag = Tag::kWhole;
  } else {
    // A torn one's writer was killed, or the machine died: then what was not written yet may read as NULs.
    text.erase(text.find_last_not_of('\0') + 1);
    tag = kTagText.starts_with(text) ? Tag::kTorn : Tag::kForeign;
  }
  return {};
}

// Says of a name whether it is one that a cache has in `folder`; nullptr if a cache has no such folder.
using NameTest = bool (*)(std::string_view);
NameTest names_of(std::string_view folder) {
  if (is_version_folder(folder)) return is_entry_folder;
  if (folder == "tmp") return is_temporary;
  if (folder == "locks") return is_lock;
  if (folder == "damaged") return is_moved_aside;
  return nullptr;
}

// Of what is in `root` under `name`, the path below `root` of something that a cache does not have, "" if all
// is ours. What goes meanwhile is not foreign.
std::string foreign_under(FileSystem& files, const std::string& root, const std::string& name) {
  // A new file system comes with a lost+found, which is not for us to read.
  if (name == kTagName || name == "lost+found") return {};
  if (name == "usage") {
    std::string text;
    const auto error = read_file(files, root + "/" + name, kMaxTagBytes, text);
    return is_wrong_kind(error) || !is_usage(text) ? name : "";
  }
  const NameTest is_ours = names_of(name);
  if (is_ours == nullptr) return name;
  std::vector<std::string> inner;
  if (const auto error = files.list(root + "/" + name, inner)) return is_missing(error) ? "" : name;
  const auto foreign = std::ranges::find_if_not(inner, is_ours);
  return foreign == inner.end() ? "" : name + "/" + *foreign;
}

std::error_code search(FileSystem& files, const std::string& root, std::string& foreign) {
  std::vector<std::string> names;
  if (const auto error = files.list(root, names)) return error;
  std::ranges::sort(names);  // so that the message is the same every time
  for (const std::string& name : names) {
    foreign = foreign_under(files, root, name);
    if (!foreign.empty()) break;
  }
  return {};
}

}  // namespace

std::error_code find_foreign(FileSystem& files, const std::string& root, std::string& foreign) {
  foreign.clear();
  Tag tag = Tag::kMissing;
  const auto error = read_tag(files, root, tag);
  if (error || tag == Tag::kWhole) return error;
  if (tag == Tag::kForeign) foreign = kTagName;
  return foreign.empty() ? search(files, root, foreign) : std::error_code();
}

std::string no_cache(const std::string& root, const std::string& foreign) {
  return root + " is no kernel cache: it holds '" + foreign +
         "', which is not ours; set JFA_CACHE_DIR to a new or an empty directory";
}

bool is_marked(FileSystem& files, const std::string& root) {
  Tag tag = Tag::kMissing;
  return !read_tag(files, root, tag) && tag == Tag::kWhole;
}

std::error_code mark(FileSystem& files, const std::string& root) {
  const std::string temporary = root + "/tmp/" + temporary_name();
  // Without a sync: what a dying machine leaves of it is known as torn.
  std::unique_ptr<WritableFile> file;
  auto error = files.create(temporary, 0600, file);
  if (!error) error = file->append(kTagText);
  if (!error) error = files.rename(temporary, root + "/" + std::string(kTagName));
  if (error) (void)files.remove(temporary);
  return error;
}

}  // namespace jfa
