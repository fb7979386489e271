#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <system_error>

namespace jfa::tools {
namespace {

constexpr std::size_t kLeastStep_bytes = std::size_t{64} << 10;

struct Descriptor {
  int value = -1;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

Status failed(const std::string& path, int error) {
  return Status::unavailable(fmt::format("{}: {}", path, std::generic_category().message(error)));
}

template <class Container>
Result<Container> read(const std::string& path, std::uint64_t max_bytes) {
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY)};
  if (file.value < 0) return failed(path, errno);
  struct stat status {};
  if (::fstat(file.value, &status) != 0) return failed(path, errno);
  if (S_ISDIR(status.st_mode)) return failed(path, EISDIR);
  // A device may never end.
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode))
    return Status::unavailable(fmt::format("{}: is a device, not a file", path));
  const auto too_long = [&] {
    return Status::unavailable(fmt::format("{}: has more than {} bytes", path, max_bytes));
  };
  const std::uint64_t expected = S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (expected > max_bytes) return too_long();
  Container bytes;
  std::size_t size = 0;
  try {
    // One byte more than there should be: reading it shows that the file has ended.
    bytes.resize(expected + 1);
    while (true) {
      const ssize_t count = ::read(file.value, bytes.data() + size, bytes.size() - size);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return failed(path, errno);
      if (count == 0) break;
      size += static_cast<std::size_t>(count);
      if (size > max_bytes) return too_long();
      if (size == bytes.size()) bytes.resize(size + std::max(size, kLeastStep_bytes));
    }
    bytes.resize(size);
  } catch (const std::exception&) {  // std::bad_alloc, or std::length_error
    return Status::unavailable(
        fmt::format("{}: no memory for its {} bytes", path, std::max<std::uint64_t>(expected, bytes.size())));
  }
  return bytes;
}

}  // namespace

Result<std::vector<std::byte>> read_bytes(const std::string& path, std::uint64_t max_bytes) {
  return read<std::vector<std::byte>>(path, max_bytes);
}

Result<std::string> read_text(const std::string& path, std::uint64_t max_bytes) {
  return read<std::string>(path, max_bytes);
}

}  // namespace jfa::tools
