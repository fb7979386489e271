#include "runtime/loader_path.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

namespace jfa {
namespace {

namespace fs = std::filesystem;

// What this code is part of: libjfa.so, whose run path counts for what it opens, or the program.
void* open_self() {
  Dl_info own{};
  void* self = nullptr;
  if (dladdr(reinterpret_cast<const void*>(&open_self), &own) != 0 && own.dli_fname != nullptr)
    self = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return self ? self : dlopen(nullptr, RTLD_LAZY);
}

// The folders of the loader's own search for this code.
std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders;
  void* self = open_self();
  Dl_serinfo size{};
  if (self && dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> storage(size.dls_size / sizeof(std::max_align_t) + 1);
    auto* info = reinterpret_cast<Dl_serinfo*>(storage.data());
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, info) == 0 && dlinfo(self, RTLD_DI_SERINFO, info) == 0)
      for (unsigned i = 0; i < info->dls_cnt; ++i) folders.emplace_back(info->dls_serpath[i].dls_name);
  }
  if (self) dlclose(self);
  return folders;
}

// A NUL-terminated string of the cache; empty if it runs over the end.
std::string_view string_at(std::string_view cache, std::uint32_t offset) {
  if (offset >= cache.size()) return {};
  const std::string_view rest = cache.substr(offset);
  const std::size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

std::optional<std::string> find_in_loader_cache(std::string_view cache, std::string_view soname) {
  // Header: magic, number of libraries, size of the strings, and 20 bytes that do not matter here. Then the
  // libraries: flags, offsets of soname and path from the start, OS version, hardware capabilities.
  constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
  constexpr std::size_t kHeaderBytes = 48;
  constexpr std::size_t kLibraryBytes = 24;
  if (cache.size() < kHeaderBytes || cache.substr(0, kMagic.size()) != kMagic) return std::nullopt;
  std::uint32_t count = 0;
  std::memcpy(&count, cache.data() + kMagic.size(), sizeof count);
  if (count > (cache.size() - kHeaderBytes) / kLibraryBytes) return std::nullopt;
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t offsets[2];  // of soname and path
    std::memcpy(offsets, cache.data() + kHeaderBytes + i * kLibraryBytes + sizeof(std::int32_t),
                sizeof offsets);
    if (string_at(cache, offsets[0]) == soname) return std::string(string_at(cache, offsets[1]));
  }
  return std::nullopt;
}

std::optional<fs::path> find_by_soname(const std::string& soname) {
  std::error_code error;
  std::vector<fs::path> places = search_folders();
  for (const fs::path& folder : places)
    if (fs::exists(folder / soname, error)) return folder / soname;
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string cache{std::istreambuf_iterator<char>(file), {}};
  const std::optional<std::string> path = find_in_loader_cache(cache, soname);
  if (path && fs::exists(*path, error)) return fs::path(*path);
  return std::nullopt;
}

}  // namespace jfa
