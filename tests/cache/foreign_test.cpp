// What is not ours: directories that are refused, and files that housekeeping leaves alone.
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>

#include "cache/entry_directory.h"
#include "cache/maintenance.h"
#include "tests/cache/support.h"

using namespace jfa;
using namespace jfa::test;
namespace fs = std::filesystem;

namespace {

const std::string kUnique = "1234-0123456789abcdef";
const std::string kHex = std::string(64, 'a');
const std::string kKey = kHex + "-" + std::string(16, 'b');

void make_private(const std::string& directory) {
  fs::create_directories(directory);
  fs::permissions(directory, fs::perms::owner_all);
}

struct Case {
  std::string what;
  std::function<void(const std::string& directory)> make;
};

Case file(const std::string& name, const std::string& text = "not ours") {
  return {name, [=](const std::string& directory) { write_bytes(directory + "/" + name, text); }};
}

}  // namespace

TEST_CASE("a directory of somebody else is not taken for a cache: refused by name, nothing added") {
  const std::vector<Case> foreign = {
      file("Documents/letter.txt"),
      file(".bashrc"),
      file("tmp/report.tmp.txt"),
      file("tmp/" + kUnique + ".tmp.txt"),
      file("damaged/x.entry.txt"),
      file("locks/mine.lock"),
      file("usage", "x"),
      file("v2/notes"),
      file("v3/api.json"),
      file("tmp", "a file"),
      file("CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# This file is cargo's.\n"),
      file("CACHEDIR.TAG", "not even a tag"),
      {"a directory called CACHEDIR.TAG",
       [](const std::string& directory) { fs::create_directory(directory + "/CACHEDIR.TAG"); }},
  };
  for (const Case& row : foreign) {
    CAPTURE(row.what);
    const TemporaryDirectory parent;
    const std::string directory = parent / "theirs";
    make_private(directory);
    row.make(directory);
    const auto before = files_below(directory);
    const auto names = std::distance(fs::recursive_directory_iterator(directory), {});
    const Status status = open_directory(directory).check_writable();
    CHECK(status.kind() == ErrorKind::kUnavailable);
    CHECK(status.message().starts_with(directory + " is no kernel cache: it holds '"));
    CHECK(status.message().find("set JFA_CACHE_DIR to") != std::string::npos);

    Watched cache(directory);
    CHECK(cache.compile(3) == 3);
    REQUIRE(cache.lines.size() == 1);
    CHECK(cache.lines[0] == "no cache directory: " + status.message() + "; kernels are kept in memory only");
    CHECK(files_below(directory) == before);
    CHECK(std::distance(fs::recursive_directory_iterator(directory), {}) == names);
  }
}

TEST_CASE("the root of the file system and a home are not taken for a cache") {
  CHECK(open_directory("/").check_writable().message().starts_with("/ is no kernel cache: it holds '"));
  const TemporaryDirectory home;
  write_bytes(home / ".profile", "");
  CHECK_FALSE(open_directory(home.path()).check_writable().ok());
}

TEST_CASE("caches are known: new, empty, marked by any version, and what deletion leaves of one") {
  const CompileRequest request = make_request("kernel");
  const std::vector<Case> known = {
      {"missing", [](const std::string& directory) { fs::remove(directory); }},
      {"empty", [](const std::string&) {}},
      {"a new file system",
       [](const std::string& directory) { fs::create_directory(directory + "/lost+found"); }},
      {"a copied v2",
       [&](const std::string& directory) {
         fill(directory + "/other", request);
         fs::rename(directory + "/other/v2", directory + "/v2");
         fs::remove_all(directory + "/other");
       }},
      {"marked, with files of other versions and of people",
       [&](const std::string& directory) {
         fill(directory, request);
         write_bytes(directory + "/v1/index", "x");
         write_bytes(directory + "/notes", "x");
       }},
      {"no tag",
       [&](const std::string& directory) {
         fill(directory, request);
         fs::remove(directory + "/CACHEDIR.TAG");
       }},
      {"a torn tag",
       [&](const std::string& directory) {
         fill(directory, request);
         fs::resize_file(directory + "/CACHEDIR.TAG", 60);
       }},
      {"a tag of which nothing was written before the machine died",
       [&](const std::string& directory) {
         fill(directory, request);
         const auto bytes = fs::file_size(directory + "/CACHEDIR.TAG");
         write_bytes(directory + "/CACHEDIR.TAG", std::string(bytes, '\0'));
       }},
      {"an empty tag",
       [&](const std::string& directory) {
         fill(directory, request);
         fs::resize_file(directory + "/CACHEDIR.TAG", 0);
       }},
      {"working files alone",
       [&](const std::string& directory) {
         fill(directory, request);
         fs::remove_all(directory + "/v2");
         fs::remove(directory + "/CACHEDIR.TAG");
         write_bytes(directory + "/tmp/" + kUnique + ".tmp", "x");
         write_bytes(directory + "/locks/" + kKey + ".lock", "");
         write_bytes(directory + "/locks/trim.lock", "");
         write_bytes(directory + "/damaged/" + kKey.substr(2) + ".entry." + kUnique, "x");
         write_bytes(directory + "/damaged/ab." + kUnique, "x");
       }},
  };
  for (const Case& row : known) {
    CAPTURE(row.what);
    const TemporaryDirectory parent;
    const std::string directory = parent / "cache";
    make_private(directory);
    row.make(directory);
    CHECK(open_directory(directory).check_writable().message() == "");
    Watched cache(directory);
    CHECK(cache.compile(1) == 1);
    CHECK(cache.stats.published == 1);
    CHECK(cache.lines.empty());
    CHECK(read_bytes(directory + "/CACHEDIR.TAG").size() > 100);
  }
}

TEST_CASE("among files of somebody else entries are served, where nothing is to be written") {
  const TemporaryDirectory parent;
  const CompileRequest request = make_request("kernel");
  fill(parent / "cache", request);
  fs::remove(parent / "cache/CACHEDIR.TAG");
  write_bytes(parent / "cache/letter", "not ours");
  Watched cache(parent / "cache");
  cache.options.write = false;
  CHECK(KernelCache(cache.options).find(request) != nullptr);
  CHECK(cache.lines.empty());
}

TEST_CASE("a cache whose place somebody else takes while the process runs is left to them") {
  const TemporaryDirectory parent;
  const std::string directory = parent / "cache";
  Watched watched(directory);
  KernelCache cache(watched.options);
  const auto get = [&](const char* source) {
    const CompileRequest request = make_request(source);
    return cache.get_or_compile(request, [&] { return make_image(request); }).ok();
  };
  CHECK(get("one"));
  fs::remove_all(directory);
  make_private(directory);
  write_bytes(directory + "/letter", "not ours");
  CHECK(get("two"));
  CHECK(get("three"));
  CHECK(files_below(directory) == std::vector<std::string>{directory + "/letter"});
  REQUIRE(watched.lines.size() == 1);
  CHECK(watched.lines[0].find("it holds 'letter', which is not ours") != std::string::npos);
  CHECK(cache.state().reason.find("it holds 'letter'") != std::string::npos);
}

TEST_CASE("clearing and trimming remove whole names of ours, and nothing that is called alike") {
  const TemporaryDirectory parent;
  const std::string directory = parent / "cache";
  const CompileRequest request = make_request("kernel");
  fill(directory, request);
  const std::string entry = kKey.substr(2) + ".entry";
  const std::vector<std::string> ours = {"tmp/" + kUnique + ".tmp", "damaged/" + entry + "." + kUnique,
                                         "damaged/ab." + kUnique, "locks/" + kKey + ".lock"};
  std::vector<std::string> theirs = {"tmp/report.tmp.txt",
                                     "tmp/" + kUnique + ".tmp.txt",
                                     "tmp/x" + kUnique + ".tmp",
                                     "tmp/.tmp",
                                     "tmp/12-0123456789abcde.tmp",
                                     "tmp/-0123456789abcdef.tmp",
                                     "tmp/12-0123456789ABCDEF.tmp",
                                     "damaged/x.entry.txt",
                                     "damaged/" + entry,
                                     "damaged/" + entry + ".txt",
                                     "damaged/x" + entry + "." + kUnique,
                                     "damaged/notes." + kUnique,
                                     "locks/mine.lock",
                                     "locks/" + kKey + ".lock.txt",
                                     "locks/x" + kKey + ".lock",
                                     "v2/aa/" + entry + ".txt",
                                     "v2/aa/x" + entry,
                                     "v2/AA/" + entry,
                                     "v2/aaa/" + entry,
                                     "notes"};
  for (const auto* names : {&ours, static_cast<const std::vector<std::string>*>(&theirs)}) {
    for (const std::string& name : *names) {
      write_bytes(directory + "/" + name, "text");
      set_age(directory + "/" + name, 30 * 86400);
    }
  }
  fs::remove(directory + "/usage");
  write_bytes(directory + "/usage", "of electricity");
  theirs.push_back("usage");
  EntryDirectory entries = open_directory(directory);
  SUBCASE("trim") {
    set_age(stored_path(directory, request), 600);
    CHECK(trim(entries, trim_policy(1)).evicted.size() == 1);
  }
  SUBCASE("clear") { CHECK(clear(entries).removed == 4); }
  SUBCASE("clear, after counting what is there") {
    CHECK(leftovers(entries).temporaries == 1);
    CHECK(leftovers(entries).damaged == 2);
    CHECK(stored_entries(entries).size() == 1);
    clear(entries);
  }
  for (const std::string& name : ours) CHECK_FALSE(fs::exists(directory + "/" + name));
  for (const std::string& name : theirs) {
    CAPTURE(name);
    CHECK(read_bytes(directory + "/" + name) == (name == "usage" ? "of electricity" : "text"));
  }
  CHECK_FALSE(fs::exists(stored_path(directory, request)));
}

TEST_CASE("folders of a cache that are symbolic links are not followed by housekeeping") {
  const TemporaryDirectory parent;
  const std::string ours = parent / "ours";
  const std::string theirs = parent / "theirs";
  const CompileRequest request = make_request("kernel");
  fill(theirs, request);
  write_bytes(theirs + "/tmp/" + kUnique + ".tmp", "x");
  write_bytes(theirs + "/damaged/ab." + kUnique, "x");
  write_bytes(theirs + "/locks/" + kKey + ".lock", "");
  for (const std::string& path : files_below(theirs)) set_age(path, 30 * 86400);
  const auto before = files_below(theirs);
  fill(ours, make_request("another"));
  for (const char* folder : {"/tmp", "/damaged", "/locks"}) {
    fs::remove_all(ours + folder);
    fs::create_directory_symlink(theirs + folder, ours + folder);
  }
  const std::string folder = fs::path(stored_path(ours, request)).parent_path();
  fs::remove_all(folder);
  fs::create_directory_symlink(fs::path(stored_path(theirs, request)).parent_path(), folder);
  EntryDirectory entries = open_directory(ours);
  trim(entries, trim_policy(1));
  clear(entries);
  CHECK(files_below(theirs) == before);
}

TEST_CASE("a symbolic link in the place of v2 or tmp leads to nobody's files") {
  for (const char* linked : {"/v2", "/tmp"}) {
    CAPTURE(linked);
    const TemporaryDirectory parent;
    const std::string ours = parent / "ours", theirs = parent / "theirs";
    const CompileRequest request = make_request("kernel"), other = make_request("another");
    fill(theirs, request);
    fill(ours, request);
    fs::remove_all(ours + linked);
    fs::create_directory_symlink(theirs + linked, ours + linked);
    const auto before = files_below(theirs);
    EntryDirectory entries = open_directory(ours);
    trim(entries, trim_policy(1));
    clear(entries);
    CHECK(entries.find(request_key(request), kCompiler).image == nullptr);
    Watched watched(ours);
    CHECK(watched.compile(1) == 1);  // in memory
    CHECK(watched.stats.published == 0);
    CHECK(files_below(theirs) == before);
  }
}

TEST_CASE("an error of the moment is no verdict: what was taken for a cache stays one") {
  const TemporaryDirectory parent;
  const std::string directory = parent / "cache";
  const auto files = std::make_shared<FaultyFileSystem>();
  Watched watched(directory, files);
  KernelCache cache(watched.options);
  const auto publish = [&](const char* source) {
    const CompileRequest request = make_request(source);
    REQUIRE(cache.get_or_compile(request, [&] { return make_image(request); }).ok());
    return cache.stats().published;
  };
  CHECK(publish("one") == 1);
  fs::remove_all(directory);
  int failures = 1;
  files->before = [&](Step step, const std::string&) {
    return step == Step::kList && failures-- > 0 ? error_of(EMFILE) : std::error_code();
  };
  publish("two");
  CHECK(failures <= 0);
  files->before = nullptr;
  const auto published = cache.stats().published;
  CHECK(publish("three") == published + 1);
}

TEST_CASE("housekeeping of an empty directory leaves it empty") {
  const TemporaryDirectory directory;
  EntryDirectory entries = open_directory(directory.path());
  CHECK(trim(entries, trim_policy(1)).entries == 0);
  CHECK(clear(entries).removed == 0);
  CHECK(fs::is_empty(directory.path()));
}

TEST_CASE("what clear() cannot remove is named, with the reason") {
  const TemporaryDirectory directory;
  const CompileRequest request = make_request("kernel");
  fill(directory.path(), request);
  const auto files = std::make_shared<FaultyFileSystem>();
  files->before = [](Step step, const std::string& path) {
    return step == Step::kRemove && path.ends_with(".entry") ? error_of(EACCES) : std::error_code();
  };
  EntryDirectory entries(files, directory.path(), EntryDirectory::Access::kPrivate);
  const ClearOutcome outcome = clear(entries);
  CHECK(outcome.failed == 1);
  CHECK(outcome.failure == stored_path(directory.path(), request) + ": Permission denied");
}
