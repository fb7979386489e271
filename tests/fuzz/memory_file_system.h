// One file in memory, for fuzzing readers without a disk.
#pragma once

#include <cerrno>
#include <memory>
#include <string>

#include "cache/file_system.h"

namespace jfa::fuzz {

class MemoryFile : public ReadableFile {
 public:
  explicit MemoryFile(std::string content) : content_(std::move(content)) {}
  std::error_code info(FileInfo& info) override {
    info = {};
    info.type = FileType::kFile;
    info.size_bytes = content_.size();
    return {};
  }
  std::error_code read(std::uint64_t offset, std::uint64_t count, std::string& bytes) override {
    bytes = offset < content_.size() ? content_.substr(offset, count) : std::string();
    return {};
  }

 private:
  std::string content_;
};

class MemoryFileSystem : public FileSystem {
 public:
  explicit MemoryFileSystem(std::string content) : content_(std::move(content)) {}

  std::error_code open(const std::string&, std::unique_ptr<ReadableFile>& file) override {
    file = std::make_unique<MemoryFile>(content_);
    return {};
  }
  std::error_code resolve(const std::string& path, std::string& resolved) override {
    resolved = path;
    return {};
  }
  std::error_code create(const std::string&, std::uint32_t, std::unique_ptr<WritableFile>&) override {
    return no();
  }
  std::error_code rename(const std::string&, const std::string&) override { return no(); }
  std::error_code remove(const std::string&) override { return no(); }
  std::error_code make_directory(const std::string&) override { return no(); }
  std::error_code sync_directory(const std::string&) override { return no(); }
  std::error_code list(const std::string&, std::vector<std::string>&) override { return no(); }
  std::error_code info(const std::string&, FileInfo&) override { return no(); }
  std::error_code set_modified(const std::string&, std::int64_t) override { return no(); }
  std::error_code try_lock(const std::string&, std::string_view, std::unique_ptr<FileLock>&) override {
    return no();
  }
  std::int64_t now_s() override { return 0; }
  std::uint32_t user() override { return 0; }

 private:
  static std::error_code no() { return {EROFS, std::generic_category()}; }
  std::string content_;
};

}  // namespace jfa::fuzz
