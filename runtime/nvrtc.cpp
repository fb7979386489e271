#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <nvrtc.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <string_view>

#include "cache/compiler_identity.h"
#include "generator/target.h"
#include "runtime/loader_path.h"
#include "runtime/nvrtc_log.h"

namespace jfa {

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const NvrtcVersion&) const = default;
};

namespace {

#define JFA_NVRTC_CALLS(X)     \
  X(nvrtcVersion)              \
  X(nvrtcGetErrorString)       \
  X(nvrtcGetNumSupportedArchs) \
  X(nvrtcGetSupportedArchs)    \
  X(nvrtcCreateProgram)        \
  X(nvrtcDestroyProgram)       \
  X(nvrtcCompileProgram)       \
  X(nvrtcGetPTXSize)           \
  X(nvrtcGetPTX) X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog)

// From this version on every target can be asked for.
NvrtcVersion oldest_for_all_targets() {
  NvrtcVersion oldest;
  for (const TargetRow& row : target_table())
    oldest = std::max(oldest, NvrtcVersion{row.oldest_nvrtc.first, row.oldest_nvrtc.second});
  return oldest;
}

std::string to_string(NvrtcVersion version) { return fmt::format("{}.{}", version.major, version.minor); }

// 100 for "sm_100f", 0 if there is no number.
int architecture_of(std::string_view target) {
  const std::size_t digits = target.find_first_of("0123456789");
  int architecture = 0;
  if (digits != std::string_view::npos)
    std::from_chars(target.data() + digits, target.data() + target.size(), architecture);
  return architecture;
}

}  // namespace

struct Nvrtc::Library {
  void* handle = nullptr;
  void* builtins = nullptr;
  std::string path;
  std::string origin;
  std::string identity;
  std::string missing_builtins;
  NvrtcVersion version;
  std::vector<int> architectures;
#define JFA_DECLARE_CALL(name) decltype(&::name) name = nullptr;
  JFA_NVRTC_CALLS(JFA_DECLARE_CALL)
#undef JFA_DECLARE_CALL

  ~Library() {
    if (handle) dlclose(handle);
    if (builtins) dlclose(builtins);
  }

  /// Fills everything above; the error says why this candidate cannot be used.
  Status open(const NvrtcCandidate& candidate);

 private:
  void open_builtins();
};

Status Nvrtc::Library::open(const NvrtcCandidate& candidate) {
  handle = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return Status::unavailable(dlerror());
  path = candidate.path;
  if (link_map* map = nullptr; dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0')
    path = map->l_name;
  origin = candidate.origin;
#define JFA_LOAD_CALL(name)                                         \
  name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name)); \
  if (!name) return Status::unavailable(fmt::format("{}: no function {}", path, #name));
  JFA_NVRTC_CALLS(JFA_LOAD_CALL)
#undef JFA_LOAD_CALL
  if (nvrtcVersion(&version.major, &version.minor) != NVRTC_SUCCESS)
    return Status::unavailable(path + ": nvrtcVersion failed");
  int count = 0;
  if (nvrtcGetNumSupportedArchs(&count) == NVRTC_SUCCESS && count > 0) {
    architectures.resize(static_cast<std::size_t>(count));
    if (nvrtcGetSupportedArchs(architectures.data()) != NVRTC_SUCCESS) architectures.clear();
  }
  Result<std::string> id = compiler_identity(path);
  if (!id) return id.status();
  identity = *id;
  open_builtins();
  return {};
}

// NVRTC opens its builtins library by name when it compiles. Opening the one that lies beside it first makes
// that name resolve wherever the loader would look.
void Nvrtc::Library::open_builtins() {
  const std::string soname = fmt::format("libnvrtc-builtins.so.{}", to_string(version));
  std::error_code error;
  std::filesystem::path folder = std::filesystem::canonical(path, error).parent_path();
  const std::string beside = (folder / soname).string();
  builtins = dlopen(beside.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!builtins) builtins = dlopen(soname.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!builtins) missing_builtins = beside;
}

Nvrtc::Nvrtc(std::unique_ptr<Library> library) : library_(std::move(library)) {}
Nvrtc::~Nvrtc() = default;

namespace {

// The file behind a candidate, as dlopen would choose it: one that the process has loaded already comes
// first.
std::optional<std::filesystem::path> file_of(const NvrtcCandidate& candidate) {
  const std::filesystem::path path(candidate.path);
  if (path.is_absolute()) return path;
  if (void* loaded = dlopen(candidate.path.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    link_map* map = nullptr;
    const bool known = dlinfo(loaded, RTLD_DI_LINKMAP, &map) == 0;
    const std::string name = known ? map->l_name : "";
    dlclose(loaded);
    if (!name.empty()) return std::filesystem::path(name);
  }
  return find_by_soname(candidate.path);
}

// 13.0 for libnvrtc.so.13.0.88, 13.0 for libnvrtc.so.13 (its first minor version is new enough); nullopt for
// a name that does not tell.
std::optional<NvrtcVersion> version_in_name(const std::filesystem::path& file) {
  constexpr std::string_view kPrefix = "libnvrtc.so.";
  const std::string name = file.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const char* at = name.data() + kPrefix.size();
  const char* const end = name.data() + name.size();
  NvrtcVersion version;
  const auto major = std::from_chars(at, end, version.major);
  if (major.ec != std::errc()) return std::nullopt;
  if (major.ptr == end)
    return version.major > oldest_for_all_targets().major ? std::optional(version) : std::nullopt;
  if (std::from_chars(major.ptr + 1, end, version.minor).ec != std::errc()) return std::nullopt;
  return version;
}

}  // namespace

std::optional<std::string> Nvrtc::find_identity(const NvrtcSearch& search) {
  for (const NvrtcCandidate& candidate : nvrtc_candidates(search)) {
    const auto file = file_of(candidate);
    if (!file) continue;
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(*file, error);
    const auto version = error ? std::nullopt : version_in_name(real);
    if (!version) return std::nullopt;
    if (*version < oldest_for_all_targets()) continue;
    const Result<std::string> identity = compiler_identity(real.string());
    return identity ? std::optional(*identity) : std::nullopt;
  }
  return std::nullopt;
}

Result<std::shared_ptr<const Nvrtc>> Nvrtc::open(const NvrtcSearch& search) {
  std::unique_ptr<Library> too_old;
  std::string tried;
  for (const NvrtcCandidate& candidate : nvrtc_candidates(search)) {
    auto library = std::make_unique<Library>();
    if (Status status = library->open(candidate); !status.ok()) {
      tried += fmt::format("{} ({}): {}\n", candidate.path, candidate.origin, status.message());
      continue;
    }
    if (library->version >= oldest_for_all_targets())
      return std::shared_ptr<const Nvrtc>(new Nvrtc(std::move(library)));
    if (!too_old) too_old = std::move(library);
  }
  if (too_old) return std::shared_ptr<const Nvrtc>(new Nvrtc(std::move(too_old)));
  if (!search.nvrtc.empty()) {
    return Status(ErrorKind::kUnavailable,
                  fmt::format("JFA_NVRTC={} is no NVRTC library and no folder with libnvrtc.so.13 or .12",
                              search.nvrtc),
                  tried);
  }
  return Status(
      ErrorKind::kUnavailable,
      fmt::format(
          "NVRTC (libnvrtc.so.13) was not found{}: install a CUDA toolkit 12.9 or later, or the "
          "PyPI package nvidia-cuda-nvrtc, or set JFA_NVRTC to the library's file or folder; jfa doctor "
          "lists where it was looked for",
          search.ignore_toolkit ? " outside toolkits (JFA_IGNORE_TOOLKIT is set)" : ""),
      tried);
}

Result<std::shared_ptr<const Nvrtc>> Nvrtc::instance() {
  static std::mutex mutex;
  // Never destroyed: threads may still compile while the process exits.
  static auto& opened = *new std::shared_ptr<const Nvrtc>;
  std::lock_guard lock(mutex);
  if (!opened) {
    Result<std::shared_ptr<const Nvrtc>> result = open(NvrtcSearch::from_process());
    if (!result) return result.status();
    opened = *result;
  }
  return opened;
}

const std::string& Nvrtc::path() const { return library_->path; }
const std::string& Nvrtc::origin() const { return library_->origin; }
std::string Nvrtc::version() const { return to_string(library_->version); }
const std::string& Nvrtc::identity() const { return library_->identity; }
const std::string& Nvrtc::missing_builtins() const { return library_->missing_builtins; }
std::vector<int> Nvrtc::architectures() const { return library_->architectures; }

Status Nvrtc::knows(const std::string& target) const {
  const TargetRow* row = find_target(target);
  const NvrtcVersion oldest =
      row ? NvrtcVersion{row->oldest_nvrtc.first, row->oldest_nvrtc.second} : NvrtcVersion{};
  const bool listed = std::ranges::count(library_->architectures, architecture_of(target)) > 0;
  if (listed && library_->version >= oldest) return {};
  return Status::unavailable(
      fmt::format("NVRTC {} ({}) does not know --gpu-architecture={}{}", version(), path(), target,
                  row ? fmt::format(": {} or later is needed", to_string(oldest)) : std::string()));
}

namespace {

// Destroys the program on every path.
class Program {
 public:
  explicit Program(decltype(&::nvrtcDestroyProgram) destroy) : destroy_(destroy) {}
  ~Program() {
    if (program_) destroy_(&program_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  nvrtcProgram* address() { return &program_; }
  nvrtcProgram get() const { return program_; }

 private:
  decltype(&::nvrtcDestroyProgram) destroy_;
  nvrtcProgram program_ = nullptr;
};

// One of NVRTC's size-then-bytes pairs; the text ones end in a NUL that is left out.
template <class Size, class Bytes>
nvrtcResult read(nvrtcProgram program, Size size_of, Bytes bytes_of, bool text, std::string* out) {
  std::size_t size = 0;
  nvrtcResult result = size_of(program, &size);
  if (result != NVRTC_SUCCESS) return result;
  out->resize(size);
  result = bytes_of(program, out->data());
  if (text)
    while (!out->empty() && out->back() == '\0') out->pop_back();
  return result;
}

}  // namespace

Result<KernelImage> Nvrtc::compile(const KernelSource& source) const {
  if (Status status = knows(source.target); !status.ok()) return status;
  const Library& nvrtc = *library_;

  const bool with_cubin = !is_virtual(source.spec.target);
  std::vector<std::string> options = source.options;
  options.push_back("--gpu-architecture=" + source.target);
  if (with_cubin) options.push_back("--ptxas-options=-v");  // the log has the facts
  // Ours is the only cache.
  if (nvrtc.version >= NvrtcVersion{12, 9}) options.push_back("--no-cache");
  std::vector<const char*> arguments;
  for (const std::string& option : options) arguments.push_back(option.c_str());

  const auto start = std::chrono::steady_clock::now();
  // Absolute, or line information would hold the working directory and the image depend on it.
  const std::string file_name = fmt::format("/jfa/{}.cu", source.name);
  Program program(nvrtc.nvrtcDestroyProgram);
  nvrtcResult result = nvrtc.nvrtcCreateProgram(program.address(), source.text.c_str(), file_name.c_str(), 0,
                                                nullptr, nullptr);
  if (result != NVRTC_SUCCESS)
    return Status(ErrorKind::kCompile, fmt::format("NVRTC {} cannot make a program of {}: {}", version(),
                                                   source.name, nvrtc.nvrtcGetErrorString(result)));
  result = nvrtc.nvrtcCompileProgram(program.get(), static_cast<int>(arguments.size()), arguments.data());
  std::string log;
  read(program.get(), nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, true, &log);

  if (result != NVRTC_SUCCESS) {
    std::string reason = first_error(log);
    if (reason.empty()) reason = nvrtc.nvrtcGetErrorString(result);
    if (!nvrtc.missing_builtins.empty())
      reason = fmt::format("{} is missing (NVRTC says: {})", nvrtc.missing_builtins, reason);
    return Status(ErrorKind::kCompile,
                  fmt::format("NVRTC {} ({}) cannot compile {}: {}", version(), path(), source.name, reason),
                  fmt::format("{}\noptions: {}\n\n{}", log, fmt::join(options, " "), numbered(source.text)));
  }

  KernelImage image;
  image.name = source.name;
  image.target = source.target;
  image.compiler = identity();
  if (with_cubin)
    result = read(program.get(), nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, false, &image.cubin);
  if (result == NVRTC_SUCCESS)
    result = read(program.get(), nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, true, &image.ptx);
  if (result != NVRTC_SUCCESS || image.cubin.empty() == with_cubin || image.ptx.empty())
    return Status(
        ErrorKind::kCompile,
        fmt::format("NVRTC {} ({}) compiled {} but yields no {}PTX: {}", version(), path(), source.name,
                    with_cubin ? "cubin and " : "", nvrtc.nvrtcGetErrorString(result)));
  if (with_cubin) {
    image.facts = parse_facts(log);
    for (const std::string& entry : source.entries)
      if (!image.facts.contains(entry))
        return Status(ErrorKind::kInternal,
                      fmt::format("the compiler's log does not speak of entry {} of {}", entry, source.name),
                      log);
  }
  image.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return image;
}

}  // namespace jfa
