#include "cache/compiler_identity.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "cache/digest.h"

namespace jfa {
namespace {

constexpr std::uint64_t kMaxNoteBytes = 1 << 20;

class ElfFile {
 public:
  explicit ElfFile(const std::string& path) : stream_(path, std::ios::binary) {}

  bool is_open() const { return stream_.is_open(); }

  bool read(std::uint64_t offset, void* destination, std::size_t count) {
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(
        stream_.read(static_cast<char*>(destination), static_cast<std::streamsize>(count)));
  }

  Digest content() {
    stream_.clear();
    stream_.seekg(0);
    Sha256 hash;
    std::vector<char> chunk(1 << 20);
    while (stream_.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), stream_.gcount() > 0) {
      hash.append({chunk.data(), static_cast<std::size_t>(stream_.gcount())});
    }
    return hash.finish();
  }

 private:
  std::ifstream stream_;
};

std::string hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4];
    text += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// A note is a header, a name and a description, the latter two padded to 4 bytes.
std::string build_id_in(std::string_view notes) {
  const auto padded = [](std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data(), sizeof header);
    notes.remove_prefix(sizeof header);
    const std::uint64_t name_bytes = padded(header.n_namesz);
    if (name_bytes + header.n_descsz > notes.size()) break;
    const std::string_view name = notes.substr(0, header.n_namesz);
    const std::string_view description = notes.substr(name_bytes, header.n_descsz);
    if (header.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU\0", 4) && !description.empty()) {
      return hex(description);
    }
    notes.remove_prefix(std::min<std::uint64_t>(name_bytes + padded(header.n_descsz), notes.size()));
  }
  return {};
}

std::string build_id(ElfFile& file, const Elf64_Ehdr& header) {
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (header.e_phentsize != sizeof segment ||
        !file.read(header.e_phoff + static_cast<std::uint64_t>(i) * sizeof segment, &segment,
                   sizeof segment)) {
      return {};
    }
    if (segment.p_type != PT_NOTE || segment.p_filesz > kMaxNoteBytes) continue;
    std::string notes(segment.p_filesz, '\0');
    if (!file.read(segment.p_offset, notes.data(), notes.size())) continue;
    if (std::string id = build_id_in(notes); !id.empty()) return id;
  }
  return {};
}

}  // namespace

Result<std::string> compiler_identity(const std::string& library_path) {
  ElfFile file(library_path);
  if (!file.is_open()) return Status::unavailable("cannot open " + library_path);
  Elf64_Ehdr header;
  if (!file.read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64) {
    return Status::unavailable(library_path + " is no 64-bit ELF file");
  }
  const std::string id = build_id(file, header);
  return id.empty() ? "sha256:" + file.content().hex() : "build-id:" + id;
}

}  // namespace jfa
