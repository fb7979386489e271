// jfa and jfa-sim with standard streams that are closed, full or broken, and with `-` for a file.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "tests/command_runner.h"

namespace jfa::test {
namespace {

namespace fs = std::filesystem;

// In a shell, in a folder of its own; $jfa and $sim are the programs.
class Shell {
 public:
  CommandResult operator()(const std::string& script) const {
    return run_command({"/bin/sh", "-c", "cd '" + directory_.path().string() + "' && " + script},
                       {"jfa=" JFA_TOOL, "sim=" JFA_SIM_TOOL, "JFA_CACHE_DIR=" + (directory_ / "cache")});
  }
  std::string file(const std::string& name) const { return directory_ / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_.path()), {}));
  }

 private:
  TemporaryDirectory directory_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("a message that cannot be written stops nothing and changes no exit status") {
  const Shell shell;
  for (const char* error : {"2>&-", "2>/dev/full"}) {
    CAPTURE(error);
    const auto exit_code = [&](const std::string& command) { return shell(command + " " + error).exit_code; };
    CHECK(exit_code("$jfa") == 2);
    CHECK(exit_code("$jfa fly") == 2);
    CHECK(exit_code("$jfa run missing") == 2);
    CHECK(exit_code("$jfa run --nonsense") == 2);
    CHECK(exit_code("JFA_CACHE=off $jfa cache list") == 2);
    CHECK(exit_code("$sim fly") == 2);
    CHECK(exit_code("$sim coverage missing") == 2);
    CHECK(exit_code("$jfa emit --head-dim 64 --format plan -o plan") == 0);
  }
}

TEST_CASE("an answer that cannot be written is exit status 2, and said") {
  const Shell shell;
  const struct {
    const char* output;
    const char* reason;
  } kinds[] = {{">/dev/full", "No space left on device"}, {">&-", "Bad file descriptor"}};
  for (const auto& [output, reason] : kinds) {
    for (const char* command :
         {"$jfa --help", "$jfa --version", "$jfa doctor", "$jfa emit --head-dim 64 --format plan",
          "$jfa emit --head-dim 64 -o -", "$jfa conformance --list", "$sim --help", "$sim coverage"}) {
      CAPTURE(command);
      const CommandResult result = shell(std::string(command) + " " + output);
      CAPTURE(result.error);
      CHECK(result.exit_code == 2);
      CHECK(has(result.error, "standard output: "));
      CHECK(has(result.error, reason));
    }
  }
  // The reader of a pipe has gone.
  const CommandResult piped = shell("(sleep 0.5; $jfa emit --head-dim 64; echo $? > code) | true; cat code");
  CHECK(piped.output == "2\n");
  CHECK(has(piped.error, "standard output: cannot write: Broken pipe"));
}

TEST_CASE("a dash is standard output, and what is told beside it goes to stderr") {
  const Shell shell;
  const CommandResult emitted = shell("$jfa emit --head-dim 64 -o -");
  CHECK(emitted.exit_code == 0);
  CHECK(emitted.output == shell("$jfa emit --head-dim 64").output);
  CHECK(shell("mkdir -m 700 empty && $jfa bundle create --from-cache $PWD/empty -o - >a.jfab").error ==
        "standard output: 0 kernels, 72 B\n");
  CHECK(has(shell("$jfa bundle verify a.jfab").output, "0 kernels, 0 damaged"));
  CHECK(shell("$jfa bundle merge a.jfab -o /dev/stdout | cmp - a.jfab").exit_code == 0);
  CHECK_FALSE(fs::exists(shell.file("-")));
  CHECK(shell("$jfa emit --head-dim 64 -o ./-").exit_code == 0);
  CHECK(read_text(shell.file("-")) == emitted.output);
}

TEST_CASE("a limit of the file's size is an error that names the file, and nothing is left behind") {
  const Shell shell;
  std::ofstream(shell.file("kernel.cu")) << "old";
  const CommandResult result = shell("ulimit -f 1 && $jfa emit --head-dim 64 -o kernel.cu");
  CHECK(result.exit_code == 2);
  CHECK(result.error == "jfa emit: kernel.cu: cannot write: File too large\n");
  CHECK(read_text(shell.file("kernel.cu")) == "old");
  CHECK(shell.files() == 1);
}

TEST_CASE("every output is refused before the work that it is for") {
  const Shell shell;
  for (const char* command :
       {"$jfa emit --head-dim 64 -o no/where", "$jfa precompile --head-dim 64 -o no/where",
        "mkdir -m 700 empty && $jfa bundle create -o no/where --from-cache $PWD/empty",
        "$jfa bench --overhead --json no/where", "$jfa conformance --json no/where",
        "$jfa conformance --record no/where"}) {
    CAPTURE(command);
    const CommandResult result = shell(command);
    CAPTURE(result.error);
    CHECK(result.exit_code == 2);
    CHECK(result.output.empty());
    CHECK(has(result.error, "no/where: cannot write: No such file or directory"));
    CHECK_FALSE(fs::exists(shell.file("cache")));
  }
}

TEST_CASE("an input that is a folder, or has no end, is named") {
  const Shell shell;
  for (const char* command :
       {"$jfa precompile --sweep", "$jfa run", "$sim coverage", "$sim run --entry k --block 32 --grid 1"}) {
    CAPTURE(command);
    const CommandResult folder = shell(std::string(command) + " /tmp");
    CHECK(folder.exit_code == 2);
    CHECK(has(folder.error, "/tmp: Is a directory\n"));
    const CommandResult endless = shell(std::string(command) + " /dev/zero");
    CHECK(endless.exit_code == 2);
    CHECK(has(endless.error, "/dev/zero: is a device, not a file\n"));
  }
}

}  // namespace
}  // namespace jfa::test
