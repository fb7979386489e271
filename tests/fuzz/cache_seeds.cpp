// Writes the first inputs of the fuzzers: cache_seeds ENTRY_DIRECTORY BUNDLE_DIRECTORY.
#include <filesystem>
#include <fstream>
#include <map>

#include "cache/bundle.h"
#include "cache/entry.h"

namespace {

using namespace jfa;

Entry entry_of(const std::string& source) {
  CompileRequest request;
  request.name = source;
  request.source = source;
  request.target = "sm_100f";
  request.options = {"-std=c++20"};
  KernelImage image;
  image.name = source;
  image.target = request.target;
  image.compiler = "c";
  image.cubin = "cubin";
  image.ptx = "ptx";
  image.facts["main"] = {168, 0, 0, 0, 0};
  return {fields_of(request), source.size(), image};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string entries = argv[1];
  const std::string bundles = argv[2];
  std::filesystem::create_directories(entries);
  std::filesystem::create_directories(bundles);
  std::ofstream(entries + "/entry", std::ios::binary) << encode_entry(entry_of("a")).value();
  for (const int count : {0, 1, 3}) {
    std::map<Digest, Entry> sorted;
    for (int i = 0; i < count; ++i) {
      const Entry entry = entry_of(std::to_string(i));
      sorted[request_key(entry.fields)] = entry;
    }
    std::ofstream bundle(bundles + "/bundle" + std::to_string(count), std::ios::binary);
    BundleWriter writer([&](std::string_view bytes) {
      return bundle << bytes ? Status() : Status::unavailable("a seed cannot be written");
    });
    for (const auto& [key, entry] : sorted) writer.add(entry).or_throw();
    writer.finish().or_throw();
  }
}
