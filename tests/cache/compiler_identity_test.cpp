// Build ids, read without loading anything.
#include "cache/compiler_identity.h"

#include <doctest/doctest.h>
#include <elf.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;

namespace {

std::string note(const char* name, std::uint32_t type, const std::string& description) {
  const Elf64_Nhdr header{static_cast<Elf64_Word>(std::strlen(name) + 1),
                          static_cast<Elf64_Word>(description.size()), type};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  const auto pad = [&] { bytes.resize((bytes.size() + 3) / 4 * 4, '\0'); };
  bytes += std::string(name) + '\0';
  pad();
  bytes += description;
  pad();
  return bytes;
}

// An ELF file with one segment of notes.
std::string elf_with(const std::string& notes) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof header + sizeof segment;
  segment.p_filesz = notes.size();
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) +
         std::string(reinterpret_cast<const char*>(&segment), sizeof segment) + notes;
}

}  // namespace

TEST_CASE("the build id is found among other notes") {
  const TemporaryDirectory directory;
  const std::string path = directory / "libcompiler.so";
  write_bytes(path, elf_with(note("GNU", NT_GNU_ABI_TAG, "0123456789abcdef") + note("Other", 3, "xyz") +
                             note("GNU", NT_GNU_BUILD_ID, "\x01\xab\xff\x10\x20")));
  CHECK(compiler_identity(path).value() == "build-id:01abff1020");
  std::filesystem::copy_file(path, directory / "copy under another name");
  CHECK(compiler_identity(directory / "copy under another name").value() == "build-id:01abff1020");
}

TEST_CASE("without a build id the content is the identity") {
  const TemporaryDirectory directory;
  const std::string path = directory / "libcompiler.so";
  const std::string bytes = elf_with(note("GNU", NT_GNU_ABI_TAG, "0123"));
  write_bytes(path, bytes);
  CHECK(compiler_identity(path).value() == "sha256:" + sha256(bytes).hex());
}

TEST_CASE("this program has an identity, and keeps it") {
  const auto identity = compiler_identity("/proc/self/exe");
  REQUIRE(identity.ok());
  CHECK(compiler_identity("/proc/self/exe").value() == *identity);
}

TEST_CASE("files that are no libraries are refused by name") {
  const TemporaryDirectory directory;
  write_bytes(directory / "text", "#!/bin/sh\n");
  write_bytes(directory / "empty", "");
  for (const std::string& path :
       {directory / "text", directory / "empty", directory / "missing", directory.path()}) {
    const Status status = compiler_identity(path).status();
    CHECK(status.kind() == ErrorKind::kUnavailable);
    CHECK(status.message().find(path) != std::string::npos);
  }
}

TEST_CASE("damaged ELF files give some identity or an error, never a crash") {
  const TemporaryDirectory directory;
  const std::string path = directory / "libcompiler.so";
  const std::string bytes = elf_with(note("GNU", NT_GNU_BUILD_ID, "\x01\x02\x03\x04"));
  int answers = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(path, bytes.substr(0, size));
    answers += compiler_identity(path).ok() ? 1 : 0;
  }
  CHECK(answers == static_cast<int>(bytes.size() - sizeof(Elf64_Ehdr)));
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = bytes;
    for (int flips = 0; flips < 3; ++flips) changed[random() % changed.size()] = static_cast<char>(random());
    write_bytes(path, changed);
    const auto identity = compiler_identity(path);
    if (identity.ok()) CHECK_FALSE(identity->empty());
  }
}
