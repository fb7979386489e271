// NVRTC: finding it, one compilation, and what is said when it cannot be done.
#include "runtime/nvrtc.h"

#include <doctest/doctest.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "generator/emit.h"
#include "runtime/loader_path.h"
#include "runtime/nvrtc_log.h"

namespace {

namespace fs = std::filesystem;

jfa::KernelSource tiny_source(const std::string& body = "out[threadIdx.x] = 1;") {
  jfa::KernelSource source;
  source.name = "tiny";
  source.text = "extern \"C\" __global__ void __launch_bounds__(64)\ntiny(float* out) {\n  " + body + "\n}\n";
  source.target = "sm_100f";
  source.options = {"--std=c++20"};
  source.entries = {"tiny"};
  return source;
}

std::shared_ptr<const jfa::Nvrtc> nvrtc() {
  auto opened = jfa::Nvrtc::instance();
  REQUIRE_MESSAGE(opened.ok(), opened.status().message());
  return *opened;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A folder of this test's own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "jfa-nvrtc-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

long resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::atol(line.c_str() + 6);
  return 0;
}

}  // namespace

TEST_CASE("one compilation yields cubin, PTX and the facts of every entry") {
  jfa::KernelSource source = tiny_source(
      "__shared__ float s[64]; s[threadIdx.x] = out[threadIdx.x]; "
      "__syncthreads(); out[threadIdx.x] = s[63 - threadIdx.x];");
  source.text += "extern \"C\" __global__ void second(float* out) { *out = 2; }\n";
  source.entries.push_back("second");
  for (const char* target : {"sm_100f", "sm_100a", "sm_103a"}) {
    CAPTURE(target);
    source.target = target;
    const auto image = nvrtc()->compile(source);
    REQUIRE_MESSAGE(image.ok(), image.status().message());
    CHECK(image->target == target);
    CHECK(image->name == "tiny");
    CHECK(image->compiler == nvrtc()->identity());
    CHECK(
        image->cubin.starts_with("\x7f"
                                 "ELF"));
    CHECK(contains(image->ptx, fmt::format(".target {}", target)));
    CHECK(contains(image->ptx, ".entry tiny"));
    CHECK(image->ptx.back() != '\0');
    CHECK(image->compile_ms > 0);
    REQUIRE(image->facts.size() == 2);
    CHECK(image->facts.at("tiny").registers > 0);
    CHECK(image->facts.at("tiny").static_shared_bytes == 256);
    CHECK(image->facts.at("second").static_shared_bytes == 0);
    CHECK(image->facts.at("second").spill_store_bytes == 0);
  }
}

namespace {

// The bytes of every section of a cubin whose name starts with ".text".
std::map<std::string, std::string> machine_code(const std::string& cubin) {
  const auto at = [&](std::size_t offset, auto field) {
    std::memcpy(&field, cubin.substr(offset, sizeof field).data(), sizeof field);
    return field;
  };
  const auto file = at(0, Elf64_Ehdr());
  const auto section = [&](std::size_t i) { return at(file.e_shoff + i * file.e_shentsize, Elf64_Shdr()); };
  const Elf64_Shdr names = section(file.e_shstrndx);
  std::map<std::string, std::string> code;
  for (std::size_t i = 0; i < file.e_shnum; ++i) {
    const Elf64_Shdr header = section(i);
    const std::string name = cubin.c_str() + names.sh_offset + header.sh_name;
    if (name.starts_with(".text")) code[name] = cubin.substr(header.sh_offset, header.sh_size);
  }
  return code;
}

// The lines of PTX that instruct: without .file and .loc, and without the sections of debug text at the end.
std::string without_debug_text(const std::string& ptx) {
  std::istringstream lines(ptx.substr(0, ptx.find("\t.section")));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(" \t");
    if (start == std::string::npos) continue;
    const std::string_view text = std::string_view(line).substr(start);
    if (!text.starts_with(".loc") && !text.starts_with(".file") && !text.starts_with("//"))
      kept += line + '\n';
  }
  return kept;
}

}  // namespace

TEST_CASE("line information changes no machine code, and a virtual target's PTX is that of the real one") {
  jfa::KernelSpec hopper;
  hopper.target = jfa::Target::sm_90a;
  hopper.visibility = {64, 64};
  jfa::KernelSpec backward;
  backward.pass = jfa::Pass::backward;
  backward.broadcast_q = true;
  for (jfa::KernelSpec spec : {hopper, backward}) {
    spec.padded_dim = 16;
    CAPTURE(jfa::name(spec));
    const auto compile = [&](bool line_info) {
      jfa::KernelSource source = jfa::emit(jfa::plan(spec).value(), line_info);
      source.name = "kernel";  // constants of the source are named after its file
      return nvrtc()->compile(source).value();
    };
    const jfa::KernelImage plain = compile(false);
    const jfa::KernelImage with_lines = compile(true);
    const auto code = machine_code(plain.cubin);
    CHECK(code.size() == plain.facts.size());
    const bool same_code = code == machine_code(with_lines.cubin);
    CHECK(same_code);
    CHECK(plain.cubin.size() < with_lines.cubin.size() / 2);
    CHECK_FALSE(contains(plain.ptx, ".loc"));
    CHECK(contains(with_lines.ptx, ".loc"));

    spec.target = jfa::virtual_target(spec.target);
    const jfa::KernelImage simulated = compile(false);
    CHECK(simulated.target == jfa::to_string(spec.target));
    CHECK(simulated.cubin.empty());
    CHECK(simulated.facts.empty());
    CHECK(contains(simulated.ptx, ".loc"));
    const bool same_ptx = without_debug_text(simulated.ptx) == without_debug_text(plain.ptx);
    CHECK(same_ptx);
    CHECK(without_debug_text(plain.ptx).size() > 10'000);
  }
}

TEST_CASE("bug-pool 77: the same source compiles to the same bytes, in any working directory") {
  jfa::KernelSource source = tiny_source();
  source.options.push_back("--generate-line-info");
  const auto first = nvrtc()->compile(source);
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const auto second = nvrtc()->compile(source);
  fs::current_path(before);
  REQUIRE((first.ok() && second.ok()));
  CHECK(first->cubin == second->cubin);
  CHECK(first->ptx == second->ptx);
}

TEST_CASE(
    "a source that does not compile: first error in the message, log and numbered source in the detail") {
  const auto image = nvrtc()->compile(tiny_source("out[0] = missing_name;"));
  REQUIRE_FALSE(image.ok());
  CHECK(image.status().kind() == jfa::ErrorKind::kCompile);
  CHECK(
      contains(image.status().message(), "/jfa/tiny.cu(3): error: identifier \"missing_name\" is undefined"));
  CHECK(contains(image.status().message(), nvrtc()->path()));
  CHECK(contains(image.status().detail(), "    3    out[0] = missing_name;"));
  CHECK(contains(image.status().detail(), "--gpu-architecture=sm_100f"));
}

TEST_CASE("an instruction that ptxas does not know is found by the same compilation") {
  const auto image = nvrtc()->compile(tiny_source("asm volatile(\"no_such_instruction.b32;\");"));
  REQUIRE_FALSE(image.ok());
  CHECK(image.status().kind() == jfa::ErrorKind::kCompile);
  CHECK(contains(image.status().message(), "no_such_instruction"));
}

TEST_CASE("facts: spills and stack are read from the log") {
  const auto facts = jfa::parse_facts(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_100f'\n"
      "ptxas info    : Function properties for a\n"
      "ptxas         .     400 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
      "ptxas info    : Used 194 registers, used 1 barriers, 400 bytes cumulative stack size, 256 bytes smem\n"
      "ptxas info    : Compile time = 13.094 ms\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_100f'\n"
      "ptxas info    : (C7512) Potential Performance Loss: wgmma.mma_async instructions are serialized due "
      "to "
      "insufficient register resources for the wgmma pipeline in function 'b'\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  REQUIRE(facts.size() == 2);
  CHECK(facts.at("a").registers == 194);
  CHECK(facts.at("a").stack_bytes == 400);
  CHECK(facts.at("a").spill_store_bytes == 12);
  CHECK(facts.at("a").spill_load_bytes == 16);
  CHECK(facts.at("a").static_shared_bytes == 256);
  CHECK(facts.at("a").serialized_products == 0);
  CHECK(facts.at("b").registers == 8);
  CHECK(facts.at("b").serialized_products == 1);
  CHECK(facts.at("b").spill_load_bytes == 0);
}

TEST_CASE("JFA_NVRTC names a file or a folder, and nothing else is tried") {
  const fs::path library = nvrtc()->path();
  jfa::NvrtcSearch search;
  for (const std::string& place : {library.string(), library.parent_path().string()}) {
    CAPTURE(place);
    search.nvrtc = place;
    const auto opened = jfa::Nvrtc::open(search);
    REQUIRE(opened.ok());
    CHECK((*opened)->origin() == "JFA_NVRTC");
    CHECK((*opened)->identity() == nvrtc()->identity());
  }
  search.nvrtc = "/no/such/place";
  const auto opened = jfa::Nvrtc::open(search);
  REQUIRE_FALSE(opened.ok());
  CHECK(opened.status().kind() == jfa::ErrorKind::kUnavailable);
  CHECK(contains(opened.status().message(), "JFA_NVRTC=/no/such/place"));
}

TEST_CASE("bug-pool 127, 129: found by soname in a toolkit, a conda environment and a virtual environment") {
  const TemporaryFolder folder;
  const auto touch = [&](const fs::path& file) {
    fs::create_directories((folder.path() / file).parent_path());
    std::ofstream(folder.path() / file) << "no library";
    return (folder.path() / file).string();
  };
  jfa::NvrtcSearch search;
  search.ignore_toolkit = true;
  CHECK(jfa::nvrtc_candidates(search).empty());

  const std::string conda = touch("conda/lib/libnvrtc.so.12");
  const std::string wheel = touch("venv/lib/python3.11/site-packages/nvidia/cu13/lib/libnvrtc.so.13");
  const std::string old_wheel =
      touch("venv/lib/python3.11/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
  const std::string system = touch("usr/lib/python3/dist-packages/nvidia/cu13/lib/libnvrtc.so.13");
  touch("usr/bin/python3");
  search.conda_prefix = (folder.path() / "conda").string();
  search.virtual_env = (folder.path() / "venv").string();
  search.path = "relative:" + (folder.path() / "usr/bin").string();
  search.cuda_path = (folder.path() / "cuda").string();
  const std::string toolkit = touch("cuda/lib64/libnvrtc.so.13");

  std::vector<std::string> paths;
  for (const auto& candidate : jfa::nvrtc_candidates(search)) paths.push_back(candidate.path);
  CHECK(paths == std::vector{conda, wheel, old_wheel, system});

  search.ignore_toolkit = false;
  std::string order;
  for (const auto& candidate : jfa::nvrtc_candidates(search)) order += candidate.path + '\n';
  CHECK(order.starts_with("libnvrtc.so.13\nlibnvrtc.so.12\n" + toolkit));

  // (d) absent: what was tried, and what to install.
  search.ignore_toolkit = true;
  const auto opened = jfa::Nvrtc::open(search);
  REQUIRE_FALSE(opened.ok());
  CHECK(contains(opened.status().message(), "nvidia-cuda-nvrtc"));
  CHECK(contains(opened.status().message(), "JFA_IGNORE_TOOLKIT"));
  CHECK(contains(opened.status().detail(), wheel));
}

TEST_CASE("bug-pool 128: only the main library is visible, and the message names the missing companion") {
  const TemporaryFolder folder;
  const fs::path fake = folder.path() / "libnvrtc.so.13";
  fs::copy_file(JFA_FAKE_NVRTC_WITHOUT_BUILTINS, fake);
  jfa::NvrtcSearch search;
  search.nvrtc = folder.path().string();
  const auto opened = jfa::Nvrtc::open(search);
  REQUIRE_MESSAGE(opened.ok(), opened.status().message());
  const std::string missing = (fs::canonical(folder.path()) / "libnvrtc-builtins.so.99.9").string();
  CHECK((*opened)->missing_builtins() == missing);
  const auto image = (*opened)->compile(tiny_source());
  REQUIRE_FALSE(image.ok());
  CHECK(contains(image.status().message(), missing + " is missing"));
}

TEST_CASE(
    "bug-pool 87, 94: an NVRTC that is too old is named with its path and the oldest version that works") {
  jfa::NvrtcSearch search;
  search.nvrtc = JFA_FAKE_NVRTC_OLD;
  const auto opened = jfa::Nvrtc::open(search);
  REQUIRE_MESSAGE(opened.ok(), opened.status().message());
  CHECK((*opened)->version() == "12.4");
  const auto image = (*opened)->compile(tiny_source());
  REQUIRE_FALSE(image.ok());
  CHECK(image.status().kind() == jfa::ErrorKind::kUnavailable);
  CHECK(contains(image.status().message(),
                 "NVRTC 12.4 (" JFA_FAKE_NVRTC_OLD
                 ") does not know --gpu-architecture=sm_100f: 12.9 or later is needed"));
  // A target of a generation that no table knows is refused too, never replaced by an older one.
  jfa::KernelSource newer = tiny_source();
  newer.target = "sm_140a";
  const auto refused = nvrtc()->compile(newer);
  REQUIRE_FALSE(refused.ok());
  CHECK(contains(refused.status().message(), "does not know --gpu-architecture=sm_140a"));
}

TEST_CASE("bug-pool 58: compiling leaks nothing, whether it works or not") {
  const jfa::KernelSource good = tiny_source();
  const jfa::KernelSource bad = tiny_source("out[0] = missing_name;");
  const auto compile_both = [&](int times) {
    for (int i = 0; i < times; ++i) {
      CHECK(nvrtc()->compile(good).ok());
      CHECK_FALSE(nvrtc()->compile(bad).ok());
    }
  };
  compile_both(20);
  const long before = resident_kib();
  compile_both(30);
  CHECK(resident_kib() - before < 60 * 1024 / 4);  // a quarter of a megabyte a compilation
}

TEST_CASE("bug-pool 89: every generated kernel compiles without an include directory") {
  for (const auto& [head_dim, window, broadcast_q] :
       {std::tuple{16, std::optional<std::int64_t>(), false}, {128, std::optional<std::int64_t>(7), true}}) {
    jfa::Configuration configuration;
    configuration.head_dim = head_dim;
    configuration.window = window;
    configuration.broadcast_q = broadcast_q;
    const auto spec = jfa::specialize(configuration);
    REQUIRE(spec.ok());
    const jfa::KernelSource source = jfa::source_of(*spec).value();
    CHECK_FALSE(contains(source.text, "#include"));
    const auto image = nvrtc()->compile(source);
    REQUIRE_MESSAGE(image.ok(), image.status().message());
    for (const auto& entry : image->facts) {
      CAPTURE(entry.first);
      const jfa::EntryFacts& facts = entry.second;
      CHECK(facts.spill_store_bytes == 0);
      CHECK(facts.spill_load_bytes == 0);
      CHECK(facts.serialized_products == 0);
    }
  }
}

TEST_CASE("bug-pool 92: threads compile at once") {
  std::vector<std::jthread> threads;
  std::vector<int> worked(8, 0);
  for (std::size_t i = 0; i < worked.size(); ++i) {
    threads.emplace_back([&worked, i] {
      const auto image = nvrtc()->compile(tiny_source(fmt::format("out[{}] = 1;", i % 4)));
      worked[i] = image.ok();
    });
  }
  threads.clear();
  CHECK(worked == std::vector<int>(8, 1));
}

TEST_CASE("The identity of NVRTC is read without loading it") {
  const jfa::NvrtcSearch search = jfa::NvrtcSearch::from_process();
  const auto identity = jfa::Nvrtc::find_identity(search);
  // Wheels name their file libnvrtc.so.13, toolkits libnvrtc.so.13.0.88; both tell.
  REQUIRE(identity);
  CHECK(*identity == nvrtc()->identity());

  jfa::NvrtcSearch nowhere;
  nowhere.ignore_toolkit = true;
  CHECK_FALSE(jfa::Nvrtc::find_identity(nowhere));
}

TEST_CASE("The loader's cache is read, and a damaged one is no cache") {
  // One library: libx.so.1 at /lib/libx.so.1.
  std::string cache = "glibc-ld.so.cache1.1";
  const auto put = [&cache](std::uint32_t value) { cache.append(reinterpret_cast<const char*>(&value), 4); };
  const std::string names = std::string("libx.so.1") + '\0' + "/lib/libx.so.1" + '\0';
  put(1);
  put(static_cast<std::uint32_t>(names.size()));
  cache.resize(48, '\0');
  for (std::uint32_t field : {1u, 72u, 82u, 0u, 0u, 0u}) put(field);
  cache += names;
  CHECK(jfa::find_in_loader_cache(cache, "libx.so.1") == "/lib/libx.so.1");
  CHECK_FALSE(jfa::find_in_loader_cache(cache, "libx.so"));
  for (std::size_t bytes = 0; bytes < cache.size(); ++bytes) {
    const auto path = jfa::find_in_loader_cache(std::string_view(cache).substr(0, bytes), "libx.so.1");
    CHECK((!path || path->empty()));
  }
  CHECK(jfa::find_by_soname("libc.so.6"));
  CHECK_FALSE(jfa::find_by_soname("libnobody-has-this.so.7"));
}
