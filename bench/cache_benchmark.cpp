// jfa_bench_cache: what the kernel cache costs. Needs NVRTC once, and no GPU.
//   jfa_bench_cache [--entries N]      the table; N entries in the crowded directory, default 100000
//   jfa_bench_cache --first-launch     a process of the table: opens a device, launches one kernel, ends
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/output_file.h"
#include "base/standard_streams.h"
#include "cache/bundle.h"
#include "cache/maintenance.h"
#include "generator/emit.h"
#include "generator/plan.h"
#include "jfa/attention.h"
#include "runtime/compile.h"
#include "runtime/nvrtc.h"

extern char** environ;

namespace {

namespace fs = std::filesystem;
using namespace jfa;
using Clock = std::chrono::steady_clock;

double ms_of(const std::function<void()>& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Median of `count` times.
double median_ms(int count, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(ms_of(work));
  std::nth_element(times.begin(), times.begin() + count / 2, times.end());
  return times[static_cast<std::size_t>(count) / 2];
}

void row(const std::string& what, double ms) { fmt::print("{:64} {:>12.4f} ms\n", what, ms); }

void must(bool held, const std::string& what) {
  if (held) return;
  throw std::runtime_error(what);
}

void write_bundle(const std::string& path, const std::function<void(BundleWriter&)>& fill) {
  auto output = tools::OutputFile::open(path).value();
  BundleWriter writer([&](std::string_view bytes) { return output.append(bytes); });
  fill(writer);
  writer.finish().or_throw();
  output.commit().or_throw();
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = fs::temp_directory_path() / "jfa-bench-XXXXXX";
    must(::mkdtemp(pattern.data()) != nullptr, "no temporary directory");
    path = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

CacheOptions options_for(const std::string& directory, const std::string& compiler) {
  CacheOptions options;
  options.directory = directory;
  options.compiler = compiler;
  return options;
}

// One sequence of one query and one key, on the simulator.
int first_launch() {
  Device device = Device::open("sim:sm_100a?sms=1").value();
  const auto zeros = [&](std::uint64_t bytes) {
    const std::uint64_t address = device.allocate(bytes).value();
    device.fill(address, 0, bytes).or_throw();
    return address;
  };
  const auto tensor = [&] { return Tensor::packed(zeros(256), 1, 1, 128, DType::bf16); };
  const std::int32_t offsets[2] = {0, 1};
  const std::uint64_t offset = zeros(sizeof offsets);
  device.upload(offset, offsets, sizeof offsets).or_throw();
  AttentionCall call;
  call.query = tensor();
  call.key = tensor();
  call.value = tensor();
  call.query_offset = {offset, 2, OffsetType::int32};
  call.key_offset = {offset, 2, OffsetType::int32};
  forward(device, call, tensor(), 0).or_throw();
  device.synchronize().or_throw();
  return 0;
}

double process_ms(const std::string& cache_directory) {
  ::setenv("JFA_CACHE_DIR", cache_directory.c_str(), 1);
  return ms_of([] {
    char self[] = "/proc/self/exe";
    char argument[] = "--first-launch";
    char* arguments[] = {self, argument, nullptr};
    pid_t process = 0;
    int status = 1;
    must(::posix_spawn(&process, self, nullptr, nullptr, arguments, environ) == 0, "cannot start a process");
    must(::waitpid(process, &status, 0) == process && status == 0,
         "the process that launches a kernel failed");
  });
}

void real_kernel() {
  Configuration configuration;
  const KernelSpec spec = specialize(configuration).value();
  const KernelSource source = source_of(spec).value();
  const CompileRequest request = compile_request(source);
  const auto nvrtc = Nvrtc::instance();
  must(nvrtc.ok(), nvrtc.status().message());
  const std::string compiler = (*nvrtc)->identity();
  const auto never = []() -> Result<KernelImage> { return Status::internal("compiled again"); };

  const TemporaryDirectory directory;
  const std::string own = directory.path + "/cache";
  row("cold: compile and store " + source.name, ms_of([&] {
        KernelCache cache(options_for(own, compiler));
        compile(cache, source).status().or_throw();
      }));
  row("key of the request", median_ms(200, [&] { (void)request_key(request); }));
  row("open a cache and hit on disk", median_ms(200, [&] {
        KernelCache(options_for(own, compiler)).get_or_compile(request, never).status().or_throw();
      }));
  KernelCache cache(options_for(own, compiler));
  const SharedImage image = cache.get_or_compile(request, never).value();
  row("hit in memory", median_ms(1000, [&] { cache.get_or_compile(request, never).status().or_throw(); }));

  const std::string bundle = directory.path + "/kernels.jfab";
  write_bundle(bundle, [&](BundleWriter& writer) {
    writer.add({fields_of(request), request.source.size(), *image}).or_throw();
  });
  CacheOptions from_bundle;
  from_bundle.bundles = {bundle};
  row("open a bundle and hit",
      median_ms(200, [&] { KernelCache(from_bundle).get_or_compile(request, never).status().or_throw(); }));
  fmt::print("{:64} {:>12} bytes\n", "  the entry", fs::file_size(bundle));

  row("process start to the end of its first launch, cold", process_ms(directory.path + "/other"));
  row("... with the kernel on disk", median_ms(3, [&] { (void)process_ms(directory.path + "/other"); }));
}

Entry small_entry(int number) {
  CompileRequest request;
  request.name = "kernel " + std::to_string(number);
  request.source = request.name;
  request.target = "sm_100f";
  KernelImage image;
  image.name = request.name;
  image.target = request.target;
  image.compiler = "benchmark";
  image.cubin.resize(1000);  // of bytes that do not compress
  std::minstd_rand random(static_cast<unsigned>(number) + 1);
  for (char& byte : image.cubin) byte = static_cast<char>(random());
  return {fields_of(request), request.source.size(), image};
}

CompileRequest request_of(const Entry& entry) {
  CompileRequest request;
  request.name = entry.image.name;
  request.source = entry.image.name;
  request.target = entry.fields.target;
  return request;
}

void crowded(int count) {
  const TemporaryDirectory parent;
  const std::string root = parent.path + "/cache";
  EntryDirectory directory(posix_file_system(), root, EntryDirectory::Access::kPrivate);
  std::string path;
  std::map<Digest, Entry> sorted;
  for (int i = 0; i < count; ++i) {
    const Entry entry = small_entry(i);
    const Digest key = request_key(entry.fields);
    const std::string bytes = encode_entry(entry).value();
    if (i == 0) {  // through the front door, which makes the directory
      must(!directory.publish(key, "benchmark", bytes, path), "cannot write " + root);
    } else {  // without its fsync
      path = directory.entry_path(entry_name(key, "benchmark"));
      fs::create_directory(fs::path(path).parent_path());
      std::ofstream(path, std::ios::binary) << bytes;
      fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
    }
    must(!posix_file_system()->set_modified(path, 1'700'000'000 + i), "cannot stamp " + path);
    sorted[key] = entry;
  }
  CacheOptions options = options_for(root, "benchmark");
  options.max_bytes = 0;
  const auto never = []() -> Result<KernelImage> { return Status::internal("compiled again"); };
  const std::string among = fmt::format("among {} entries: ", count);
  row(among + "open", median_ms(200, [&] { KernelCache cache(options); }));
  KernelCache cache(options);
  int next = 0;
  row(among + "hit on disk", median_ms(std::min(count / 2, 500), [&] {
        cache.get_or_compile(request_of(small_entry(next++)), never).status().or_throw();
      }));
  row(among + "count them",
      ms_of([&] { must(stored_entries(directory).size() == sorted.size(), "miscounted"); }));
  TrimPolicy half;
  for (const StoredEntry& entry : stored_entries(directory)) half.max_bytes += entry.bytes;
  half.max_bytes /= 2;
  half.target_bytes = half.max_bytes;
  std::size_t evicted = 0;
  row(among + "trim to one half", ms_of([&] { evicted = trim(directory, half).evicted.size(); }));
  must(evicted >= static_cast<std::size_t>(count) / 3, "trimmed too little");

  const std::string bundle_path = parent.path + "/all.jfab";
  row(among + "write them as a bundle", ms_of([&] {
        write_bundle(bundle_path, [&](BundleWriter& writer) {
          for (const auto& [key, entry] : sorted) writer.add(entry).or_throw();
        });
      }));
  row(among + "open the bundle",
      median_ms(5, [&] { Bundle::open(posix_file_system(), bundle_path).status().or_throw(); }));
  const auto bundle = Bundle::open(posix_file_system(), bundle_path).value();
  next = 0;
  row(among + "hit in the bundle", median_ms(500, [&] {
        must(bundle->find(request_key(small_entry(next++ % count).fields)).image != nullptr,
             "not in the bundle");
      }));
}

}  // namespace

int main(int argc, char** argv) {
  return tools::run_program("jfa_bench_cache", [&] {
    if (argc == 2 && std::strcmp(argv[1], "--first-launch") == 0) return first_launch();
    int entries = 100'000;
    if (argc == 3 && std::strcmp(argv[1], "--entries") == 0) entries = std::atoi(argv[2]);
    must(argc == 1 || (argc == 3 && entries > 0), "usage: jfa_bench_cache [--entries N]");
    real_kernel();
    crowded(entries);
    return 0;
  });
}
