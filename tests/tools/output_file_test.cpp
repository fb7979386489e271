// Where the bytes of `-o FILE` go, whatever FILE is, and what stays when they cannot.
#include "base/output_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "base/standard_streams.h"
#include "tests/command_runner.h"

namespace jfa::test {
namespace {

namespace fs = std::filesystem;
using tools::OutputFile;

Status write(const std::string& path, const std::string& text) {
  Result<OutputFile> file = OutputFile::open(path);
  return file ? file->write(text) : file.status();
}

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::size_t files_in(const fs::path& directory) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory), {}));
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode;
}

// Exit status of a process that runs `body`, or -signal.
int in_process(const std::function<int()>& body) {
  std::fflush(stdout);
  const pid_t process = ::fork();
  if (process == 0) ::_exit(body());
  int status = 0;
  REQUIRE(::waitpid(process, &status, 0) == process);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("a new file is made as the umask wants, and an old one keeps its mode") {
  const TemporaryDirectory directory;
  const mode_t mask = ::umask(027);
  REQUIRE(write(directory / "new", "one").ok());
  ::umask(mask);
  CHECK(read_text(directory / "new") == "one");
  CHECK((mode_of(directory / "new") & 0777) == 0640);
  fs::permissions(directory / "new", fs::perms::owner_read | fs::perms::owner_write | fs::perms::others_read);
  REQUIRE(write(directory / "new", "two").ok());
  CHECK(read_text(directory / "new") == "two");
  CHECK((mode_of(directory / "new") & 0777) == 0604);
  REQUIRE(OutputFile::open(directory / "empty")->commit().ok());
  CHECK(read_text(directory / "empty").empty());
  CHECK(files_in(directory.path()) == 2);
}

TEST_CASE("a device stays a device") {
  const TemporaryDirectory directory;
  // One of our own where that is allowed: a mistake shall not cost the machine its /dev/null.
  std::string null = directory / "null";
  if (::mknod(null.c_str(), S_IFCHR | 0666, ::makedev(1, 3)) != 0 || ::access(null.c_str(), W_OK) != 0 ||
      !std::ofstream(null))  // a mount without devices
    null = "/dev/null";
  CHECK(write(null, "text").ok());
  CHECK(S_ISCHR(mode_of(null)));
  CHECK(write("/dev/full", "text").message() == "/dev/full: cannot write: No space left on device");
  CHECK(S_ISCHR(mode_of("/dev/full")));
}

TEST_CASE("a FIFO is written through") {
  const TemporaryDirectory directory;
  const std::string fifo = directory / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  std::string read;
  std::thread reader([&] { read = read_text(fifo); });
  const Status status = write(fifo, std::string(200'000, 'x'));
  reader.join();
  CHECK(status.ok());
  CHECK(read == std::string(200'000, 'x'));
  CHECK(S_ISFIFO(mode_of(fifo)));
}

TEST_CASE("links are followed: the file behind them is written, and they stay") {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "far");
  put(directory / "far/old", "old");
  fs::create_symlink("far/old", directory / "to_old");
  fs::create_symlink("to_old", directory / "to_link");
  fs::create_symlink("far/new", directory / "to_new");
  fs::create_symlink(directory.path() / "far", directory / "near");
  REQUIRE(write(directory / "to_link", "written").ok());
  CHECK(read_text(directory / "far/old") == "written");
  REQUIRE(write(directory / "to_new", "made").ok());
  CHECK(read_text(directory / "far/new") == "made");
  REQUIRE(write(directory / "near/third", "too").ok());
  CHECK(read_text(directory / "far/third") == "too");
  for (const char* link : {"to_old", "to_link", "to_new", "near"}) CHECK(S_ISLNK(mode_of(directory / link)));

  fs::create_symlink("round", directory / "round");
  CHECK(OutputFile::open(directory / "round").status().message() ==
        directory / "round: cannot write: Too many levels of symbolic links");
}

TEST_CASE("open descriptors are written where they stand") {
  const TemporaryDirectory directory;
  put(directory / "log", "before ");
  const int descriptor = ::open((directory / "log").c_str(), O_WRONLY | O_APPEND);
  REQUIRE(descriptor >= 0);
  const std::string number = std::to_string(descriptor);
  for (const std::string& folder : {std::string("/dev/fd/"), std::string("/proc/self/fd/"),
                                    "/proc/" + std::to_string(::getpid()) + "/fd/"})
    CHECK(write(folder + number, "more ").ok());
  ::close(descriptor);
  CHECK(read_text(directory / "log") == "before more more more ");
  CHECK(write("/dev/fd/" + number, "x").message() ==
        "/dev/fd/" + number + ": cannot write: Bad file descriptor");
}

TEST_CASE("standard output, by each of its names, belongs to one file") {
  const TemporaryDirectory directory;
  for (const char* name : {"-", "/dev/stdout", "/dev/fd/1"}) {
    const std::string log = directory / "log";
    put(log, "");
    const int code = in_process([&] {
      const int descriptor = ::open(log.c_str(), O_WRONLY | O_APPEND);
      ::dup2(descriptor, STDOUT_FILENO);
      Result<OutputFile> file = OutputFile::open(name);
      if (!file || !file->is_standard_output()) return 1;
      if (OutputFile::open("-").ok()) return 2;
      tools::tell("no part of it\n");  // goes to stderr
      return file->write("text").ok() ? 0 : 3;
    });
    CHECK(code == 0);
    CHECK(read_text(log) == "text");
  }
}

TEST_CASE("what cannot be written is refused when it is opened") {
  const TemporaryDirectory directory;
  put(directory / "file", "text");
  const auto refusal = [&](const std::string& name) {
    return OutputFile::open(directory / name).status().message();
  };
  CHECK(refusal("no/such/folder") == directory / "no/such/folder: cannot write: No such file or directory");
  CHECK(refusal("file/below") == directory / "file/below: cannot write: Not a directory");
  CHECK(refusal("") == directory / ": cannot write: Is a directory");
  CHECK(refusal("new/") == directory / "new/: cannot write: Is a directory");
  CHECK(OutputFile::open("").status().kind() == ErrorKind::kUnavailable);
  CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("while the work lasts nothing is there, and without an end the old file stays") {
  const TemporaryDirectory directory;
  put(directory / "old", "old");
  {
    Result<OutputFile> old = OutputFile::open(directory / "old");
    Result<OutputFile> fresh = OutputFile::open(directory / "fresh");
    REQUIRE(old.ok());
    REQUIRE(fresh.ok());
    CHECK(files_in(directory.path()) == 1);
    REQUIRE(old->append("half").ok());
    REQUIRE(fresh->append("half").ok());
    CHECK(read_text(directory / "old") == "old");
  }
  CHECK(files_in(directory.path()) == 1);

  // A rename that fails, as a folder has taken the name.
  Result<OutputFile> fresh = OutputFile::open(directory / "fresh");
  REQUIRE(fresh.ok());
  fs::create_directory(directory / "fresh");
  CHECK(fresh->write("text").message() == directory / "fresh: cannot write: Is a directory");

  // A process that is killed.
  CHECK(in_process([&] {
          Result<OutputFile> file = OutputFile::open(directory / "old");
          (void)file->append("half");
          return ::kill(::getpid(), SIGKILL);
        }) == -SIGKILL);
  CHECK(read_text(directory / "old") == "old");
}

TEST_CASE("a file beyond its size limit, or a pipe without reader, is an error that names it") {
  const TemporaryDirectory directory;
  put(directory / "old", "old");
  const int code = in_process([&] {
    return tools::run_program("test", [&] {
      const rlimit limit{1000, 1000};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
      const Status large = write(directory / "old", std::string(5000, 'x'));
      if (large.message() != directory / "old: cannot write: File too large") return 3;
      int ends[2];
      if (::pipe(ends) != 0) return 4;
      ::close(ends[0]);
      const std::string name = "/dev/fd/" + std::to_string(ends[1]);
      return write(name, "x").message() == name + ": cannot write: Broken pipe" ? 0 : 5;
    });
  });
  CHECK(code == 0);
  CHECK(read_text(directory / "old") == "old");
  CHECK(files_in(directory.path()) == 1);
}

TEST_CASE("streams that are closed do not lend their numbers to files") {
  for (const int closed : {STDOUT_FILENO, STDERR_FILENO}) {
    const TemporaryDirectory directory;
    const int code = in_process([&] {
      ::close(closed);
      return tools::run_program("test", [&] {
        Result<OutputFile> file = OutputFile::open(directory / "file");
        if (!file || !file->append("text").ok()) return 1;
        tools::say("a message\n");
        tools::tell("an answer\n");
        (void)std::fflush(stdout);
        return file->commit().ok() ? 0 : 3;
      });
    });
    CHECK(code == (closed == STDOUT_FILENO ? 2 : 0));  // the answer is lost, or only the message
    CHECK(read_text(directory / "file") == "text");
  }
}

TEST_CASE("a file that may be written in a folder that may not is written in place") {
  const TemporaryDirectory directory;
  put(directory / "old", "old and long");
  fs::permissions(directory / "old", fs::perms(0666));
  put(directory / "mine", "mine");
  fs::permissions(directory / "mine", fs::perms(0444));
  fs::permissions(directory.path(), fs::perms(0555));
  const int code = in_process([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;  // root may write everywhere
    const Status made = OutputFile::open(directory / "new").status();
    if (made.message() != directory / "new: cannot write: Permission denied") return 2;
    const Status kept = OutputFile::open(directory / "mine").status();
    if (kept.message() != directory / "mine: cannot write: Permission denied") return 3;
    return write(directory / "old", "new").ok() ? 0 : 4;
  });
  fs::permissions(directory.path(), fs::perms(0700));
  CHECK(code == 0);
  CHECK(read_text(directory / "old") == "new");
  CHECK(read_text(directory / "mine") == "mine");
}

TEST_CASE("a file that a sticky folder keeps from being replaced is written all the same") {
  const TemporaryDirectory directory;
  put(directory / "old", "old and long");
  fs::permissions(directory / "old", fs::perms(0666));
  fs::permissions(directory.path(), fs::perms(01777));
  const ::uid_t owner = ::geteuid();
  const int code = in_process([&] {
    // Another user, to whom the folder's bit matters; nobody but root can become one.
    if (owner == 0 && ::setuid(65534) != 0) return 1;
    return write(directory / "old", "new").ok() ? 0 : 2;
  });
  CHECK(code == 0);
  CHECK(read_text(directory / "old") == "new");
  CHECK(files_in(directory.path()) == 1);
  struct stat status {};
  REQUIRE(::stat((directory / "old").c_str(), &status) == 0);
  CHECK(status.st_uid == owner);
}

}  // namespace
}  // namespace jfa::test
